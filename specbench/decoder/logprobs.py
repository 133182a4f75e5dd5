"""Log-probabilities of emitted tokens, as the API reports them: of the raw logits, before temperature."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.decoder.request import Logprob


def logprobs(logits: Tensor, tokens: Sequence[int], count: int) -> tuple[Logprob, ...]:
    """Those of `tokens`, and of the `count` most likely tokens at each position.

    logits [n or more, V], row i the distribution that tokens[i] was taken from
    """
    scores = logits[: len(tokens)].float().log_softmax(-1)
    chosen = scores.gather(1, torch.tensor(tokens, device=logits.device)[:, None])[:, 0].tolist()
    values, ids = scores.topk(min(count, scores.shape[1]))
    return tuple(
        Logprob(token, own, tuple(zip(top_ids, top_values, strict=True)))
        for token, own, top_ids, top_values in zip(tokens, chosen, ids.tolist(), values.tolist(), strict=True)
    )
