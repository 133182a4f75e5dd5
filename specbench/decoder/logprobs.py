"""Log-probabilities of emitted tokens, as the API reports them: of the raw logits, or of what is sampled from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from specbench.decoder.request import Logprob
from specbench.decoder.sampling import SamplingParams, Warp, warp

LogprobsMode = Literal["raw", "processed"]
"""`raw`: before temperature, top-k and top-p; `processed`: after them (vLLM's raw_logprobs and processed_logprobs)."""

IMPOSSIBLE = -9999.0
"""Reported for a token of probability 0, which JSON has no logarithm of (vLLM's value)."""


def logprobs(logits: Tensor, tokens: Sequence[int], count: int, warped: SamplingParams | None) -> tuple[Logprob, ...]:
    """Those of `tokens`, and of the `count` most likely tokens at each position.

    logits [n or more, V], row i the distribution that tokens[i] was taken from
    warped: how they were sampled, if probabilities after that are asked for; greedy ones are then raw, as in vLLM
    """
    logits = logits[: len(tokens)].float()
    if warped is None or warped.temperature == 0:
        scores = logits.log_softmax(-1)
    else:
        scores = warp(logits[None], Warp.stack([warped], logits.device))[0].log().clamp_min(IMPOSSIBLE)
    chosen = scores.gather(1, torch.tensor(tokens, device=logits.device)[:, None])[:, 0].tolist()
    values, ids = scores.topk(min(count, scores.shape[1]))
    return tuple(
        Logprob(token, own, tuple(zip(top_ids, top_values, strict=True)))
        for token, own, top_ids, top_values in zip(tokens, chosen, ids.tolist(), values.tolist(), strict=True)
    )
