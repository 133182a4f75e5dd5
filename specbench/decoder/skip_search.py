"""Which sublayers of a model can be left out while it drafts for itself: the search of SWIFT.

Xia et al., "SWIFT: On-the-fly self-speculative decoding for LLM inference acceleration" (ICLR 2025): sets of attention
and MLP sublayers, never of the first or last layer, tried one at a time while the text grows, each judged by how often
the thinned model's likeliest token is the one that was emitted.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from specbench.decoder.models.llama import Sublayer

WINDOW = 32
"""Emitted tokens that a set is judged by."""

_RATIO = 0.45
_GOOD_ENOUGH = 0.95
_FRUITLESS = 300
_TRIALS = 1000
_GUIDED = 25
"""Every 25th trial is chosen by what the earlier ones told, the others by chance."""

_POOL = 256
_KAPPA = 2.5
_NOISE = 0.05**2


class SkipSearch:
    """The best set of sublayers to skip so far, and what to try next. It ends at an agreement of 0.95, after 300 trials
    without a better set, after 1,000, or after as many as there are sets.

    layers: of the model, at least 3 · best: the set in use; about every second layer at first · agreement: its share of
    tokens that were right, when it was judged
    """

    def __init__(self, layers: int, seed: int = 0) -> None:
        self._sublayers: list[Sublayer] = [(i, part) for i in range(1, layers - 1) for part in ("attention", "mlp")]
        self._count = max(1, round(_RATIO * len(self._sublayers)))
        self._most = min(_TRIALS, math.comb(len(self._sublayers), self._count))
        self._generator = torch.Generator().manual_seed(seed)
        odd = [index for index, (layer, _) in enumerate(self._sublayers) if layer % 2 == 1]
        self._trial = self._mask(torch.tensor(odd[: self._count]))
        self._tried: list[Tensor] = []
        self._agreements: list[float] = []
        self._fruitless = 0
        self.best, self.agreement = self._set(self._trial), 0.0

    @property
    def trials(self) -> int:
        return len(self._tried)

    @property
    def goes_on(self) -> bool:
        return self.agreement < _GOOD_ENOUGH and self._fruitless < _FRUITLESS and self.trials < self._most

    def candidate(self) -> frozenset[Sublayer]:
        """The next set to judge: first that in use."""
        if self._tried:
            guided = len(self._tried) % _GUIDED == 0
            self._trial = self._promising() if guided else self._random(1)[0]
        return self._set(self._trial)

    def judge(self, agreement: float) -> bool:
        """What the last candidate came to, 0..1. Whether it is now the best."""
        better = not self._tried or agreement > self.agreement
        self._tried.append(self._trial)
        self._agreements.append(agreement)
        self._fruitless = 0 if better else self._fruitless + 1
        if better:
            self.best, self.agreement = self._set(self._trial), agreement
        return better

    def _mask(self, chosen: Tensor) -> Tensor:
        return torch.zeros(len(self._sublayers)).index_fill_(0, chosen, 1)

    def _set(self, mask: Tensor) -> frozenset[Sublayer]:
        return frozenset(self._sublayers[i] for i in mask.nonzero()[:, 0].tolist())

    def _random(self, number: int) -> list[Tensor]:
        orders = (torch.randperm(len(self._sublayers), generator=self._generator) for _ in range(number))
        return [self._mask(order[: self._count]) for order in orders]

    def _promising(self) -> Tensor:
        """Of a pool of random sets the one with the highest upper confidence bound, mean + 2.5 deviations, of a
        Gaussian process over the sets tried (covariance exp(-differing sublayers / those skipped))."""
        tried, pool = torch.stack(self._tried), torch.stack(self._random(_POOL))
        found = torch.tensor(self._agreements)
        scale = found.std().clamp_min(1e-3)

        def alike(a: Tensor, b: Tensor) -> Tensor:
            return torch.exp(-torch.cdist(a, b, p=1) / self._count)

        factor = torch.linalg.cholesky(alike(tried, tried) + _NOISE * torch.eye(len(tried)))
        across = alike(tried, pool)
        mean = across.T @ torch.cholesky_solve(((found - found.mean()) / scale)[:, None], factor)
        explained = torch.linalg.solve_triangular(factor, across, upper=False).square().sum(0)
        bound = mean[:, 0] + _KAPPA * (1 - explained).clamp_min(0).sqrt()
        return pool[int(bound.argmax())]
