"""From logits to the distribution that a request samples from, and a draw from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one request is decoded. Raises ValueError for a value that means nothing.

    temperature:    divides the logits; 0 is greedy
    top_k:          keep the k most likely tokens; 0 keeps all
    top_p:          keep the most likely tokens whose mass reaches top_p (nucleus); 1 keeps all
    seed:           int64; the same seed, parameters and prompt give the same tokens with the same method and gamma, and
                    under coupled verification with any
    max_tokens:     tokens generated at most
    ignore_eos:     do not stop at the model's end-of-sequence token
    stop_token_ids: further tokens that end the request
    logprobs:       None, or how many of the most likely tokens to report at each position (0 = the chosen one only)
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    max_tokens: int = 16
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()
    logprobs: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be a finite number >= 0 (0 is greedy); got {self.temperature}.")
        if self.top_k < 0:
            raise ValueError(f"top_k must be >= 0; got {self.top_k}. Use 0 to keep every token.")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1; got {self.top_p}. Use 1 to keep every token.")
        if not -(2**63) <= self.seed < 2**63:
            raise ValueError(f"seed must fit in a signed 64-bit integer; got {self.seed}.")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1; got {self.max_tokens}.")
        if any(token < 0 for token in self.stop_token_ids):
            raise ValueError(f"stop_token_ids must be >= 0; got {list(self.stop_token_ids)}.")
        if self.logprobs is not None and self.logprobs < 0:
            raise ValueError(f"logprobs must be >= 0, or left out for none; got {self.logprobs}.")


_MAX_TOP_K = 2**31 - 1
"""More than any vocabulary has: a larger top_k keeps no more, and need not fit in an int64."""


@dataclass(frozen=True, slots=True)
class Warp:
    """The warping parameters of a batch's rows, and what the host must know of them so that `warp` never awaits a GPU.

    temperature, top_p: [B] float32 · top_k: [B] int64, 0 = all
    greedy_rows: how many temperatures are 0 · max_top_k: the largest top_k · any_top_p: some row has top_p < 1
    (greedy rows, whose choice neither changes, not counted in the last two)
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    greedy_rows: int
    max_top_k: int
    any_top_p: bool

    @property
    def all_greedy(self) -> bool:
        return self.greedy_rows == self.temperature.shape[0]

    @classmethod
    def stack(cls, params: Sequence[SamplingParams], device: torch.device | str = "cpu") -> Warp:
        """One row per request."""
        # Greediness is read off the float32 values, where the tiniest temperatures are 0 too.
        temperature = torch.tensor([p.temperature for p in params], dtype=torch.float32)
        sampled = temperature > 0
        top_k = torch.tensor([min(p.top_k, _MAX_TOP_K) for p in params], dtype=torch.int64).where(sampled, 0)
        top_p = torch.tensor([p.top_p for p in params], dtype=torch.float32).where(sampled, 1.0)
        return cls(
            temperature=temperature.to(device),
            top_k=top_k.to(device),
            top_p=top_p.to(device),
            greedy_rows=len(params) - int(sampled.sum()),
            max_top_k=int(top_k.max()) if params else 0,
            any_top_p=bool((top_p < 1).any()),
        )


def warp(logits: Tensor, rows: Warp) -> Tensor:
    """Probabilities after temperature, then top-k, then top-p: the order of transformers and vLLM.

    logits [B, w, V] of any float dtype -> [B, w, V] float32; row b of `rows` applies to all w positions of b.

    Temperature 0 gives a one-hot of the most likely token, the lowest id among equals. Elsewhere equals are not split:
    every token as likely as the last one that top-k or top-p needs is kept. (So do transformers and vLLM for top-k; for
    top-p they leave it to the order of an unstable sort, which depends on the device.)
    """
    if rows.all_greedy:
        return _one_hot(logits)
    temperature = rows.temperature[:, None, None]
    scores = logits.to(torch.float32)
    # The largest score goes to 0 before the division, so that no temperature, however small, overflows.
    scores = (scores - scores.amax(-1, keepdim=True)).div_(temperature.where(temperature > 0, 1.0))
    if rows.max_top_k > 0:
        scores.masked_fill_(scores < _kth_largest(scores, rows), -math.inf)
    probs = scores.softmax(-1)
    if rows.any_top_p:
        probs.mul_(probs >= _nucleus_edge(probs, rows.top_p[:, None, None]))
        probs.div_(probs.sum(-1, keepdim=True))
    return probs.where(temperature > 0, _one_hot(logits)) if rows.greedy_rows else probs


def draw(probs: Tensor, noise: Tensor) -> Tensor:
    """One token per distribution: argmax of p / E with E ~ Exp(1), the exponential race.

    probs [..., V], need not sum to 1 · noise [..., V] from `noise.exponential` -> [...] int64
    E_v / p_v is the time at which a clock of rate p_v first rings; the first of all is v with probability p_v / sum(p).
    """
    return (probs / noise).argmax(-1)


def _one_hot(logits: Tensor) -> Tensor:
    # [B, w, V] -> [B, w, V]; argmax returns the first of equals
    probs = torch.zeros(logits.shape, dtype=torch.float32, device=logits.device)
    return probs.scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)


def _kth_largest(scores: Tensor, rows: Warp) -> Tensor:
    # scores [B, w, V] -> [B, w, 1]: the smallest score that top-k keeps, -inf where top-k is off
    largest = scores.topk(min(rows.max_top_k, scores.shape[-1])).values
    last = (rows.top_k - 1).clamp(0, largest.shape[-1] - 1)[:, None, None].expand(-1, scores.shape[1], 1)
    return largest.gather(-1, last).where((rows.top_k > 0)[:, None, None], -math.inf)


def _nucleus_edge(probs: Tensor, top_p: Tensor) -> Tensor:
    # probs [B, w, V] · top_p [B, 1, 1] -> [B, w, 1]: the smallest probability in the nucleus, 0 where top-p is off
    # On a CPU numpy's vectorised sort takes a thirtieth of torch's time: as little as torch's topk of a hundred.
    on_cpu = probs.device.type == "cpu"
    ascending = torch.from_numpy(np.sort(probs.numpy(), axis=-1)) if on_cpu else probs.sort(-1).values
    mass = ascending.cumsum(-1, dtype=torch.float64)
    # A token is left out where those above it hold top_p already: where the mass up to it is at most the rest.
    left_out = torch.searchsorted(mass, mass[..., -1:] - top_p, right=True)
    # The most likely token always stays: beside the whole mass the tiniest top_p are nothing.
    left_out.clamp_max_(mass.shape[-1] - 1)
    return ascending.gather(-1, left_out).where(top_p < 1, 0.0)
