"""Drafters with weights at every position of a response, from passes over the whole of it.

A draft model reads the response once: as long as its drafts are right, what it has read is the response itself. An
EAGLE-3 head goes on from its own output, so each token of a draft needs a pass of its own (`eagle3_unrolled`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from specbench.decoder.cache import KVCache
from specbench.decoder.models.eagle3 import Eagle3Head
from specbench.decoder.models.llama import Llama
from specbench.decoder.models.prefill import CHUNK, prefill
from specbench.profile.eagle3_unrolled import unrolled
from specbench.profile.offsets import DraftTable, Transcript


class DraftModelProfiler:
    """model: the draft model, with the target's vocabulary or a head for a part of it"""

    method = "draft_model"

    def __init__(self, model: Llama) -> None:
        self._model = model

    @torch.inference_mode()
    def table(self, transcript: Transcript, gamma: int) -> DraftTable:
        chosen = _greedy(self._model, [*transcript.prompt, *transcript.response[:-1]])
        right = np.array(chosen[len(transcript.prompt) - 1 :]) == np.array(transcript.response)
        return DraftTable.of_runs(_runs(right), gamma)


class Eagle3Profiler:
    """head: an EAGLE-3 head of `target`"""

    method = "eagle3"

    def __init__(self, head: Eagle3Head, target: Llama) -> None:
        self._head, self._target = head, target

    @torch.inference_mode()
    def table(self, transcript: Transcript, gamma: int) -> DraftTable:
        tokens, size = [*transcript.prompt, *transcript.response], len(transcript.response)
        runs = np.zeros(size, np.int64)
        if size > 1:
            model, read = self._target, tokens[:-2]
            cache = KVCache(model.config, 1, len(read), model.dtype, model.device)
            hidden = prefill(model, cache, 0, read, logits=0, taps=self._head.config.taps).hidden
            assert hidden is not None
            text = torch.tensor(tokens, dtype=torch.int64, device=model.device)
            # The first draft begins with the pair of the prompt's last token and the one that came from the prefill.
            first = len(transcript.prompt) - 1
            chosen = unrolled(self._head, hidden[0], text, first, gamma).cpu().numpy()
            runs[1:] = _followed(chosen, np.array(transcript.response))
        return DraftTable.of_runs(runs, gamma)


def _greedy(model: Llama, tokens: Sequence[int]) -> list[int]:
    """What the model would have chosen after every one of the tokens."""
    cache = KVCache(model.config, 1, len(tokens), model.dtype, model.device)
    chosen: list[int] = []
    for start in range(0, len(tokens), CHUNK):
        chunk = torch.tensor([tokens[start : start + CHUNK]], dtype=torch.int64, device=model.device)
        end = start + chunk.shape[1]
        positions = torch.arange(start, end, device=model.device)[None]
        view = cache.enter(slice(0, 1), positions, positions, used=end)
        best = model.forward(chunk, view, logits=chunk.shape[1]).logits[0].argmax(-1)
        chosen += (best if model.token_ids is None else model.token_ids[best]).tolist()
    return chosen


def _runs(right: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """How many hold in a row from each place on."""
    runs = np.zeros(len(right), np.int64)
    run = 0
    for place in range(len(right) - 1, -1, -1):
        run = run + 1 if right[place] else 0
        runs[place] = run
    return runs


def _followed(chosen: npt.NDArray[np.int64], response: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many steps of each chain chose what stands in the response. chosen [gamma, N-1], from token 1 on -> [N-1]"""
    right = np.zeros(chosen.shape, np.bool_)
    for step, row in enumerate(chosen):
        wanted = response[1 + step :]
        right[step, : len(wanted)] = row[: len(wanted)] == wanted
    followed: npt.NDArray[np.int64] = np.cumprod(right, 0).sum(0)
    return followed
