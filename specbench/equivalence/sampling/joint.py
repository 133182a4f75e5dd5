"""Do several tokens together come as the baseline's do? Maximum mean discrepancy of 3-grams, by permutation."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from specbench.equivalence.sampling.observations import Draw, Floats
from specbench.equivalence.sampling.results import TestResult, not_made

NAME = "joint 3-grams, MMD"
PERMUTATIONS = 19_999

GRAM = 3
MOST_PER_ARM = 200
"""Draws of a context that are looked at: a permutation costs the square of them."""

_CHUNK = 1_000
_WEIGHT = 8.0
_ROUNDING = 1e-9
Ints = npt.NDArray[np.int64]


def grams(draws: Iterable[Draw], start: int = 1) -> dict[int, Ints]:
    """[n, 3] tokens from position `start` on, by context; at most MOST_PER_ARM of each, shorter outputs left out."""
    found: dict[int, list[tuple[int, ...]]] = {}
    for draw in draws:
        gram = draw.tokens[start : start + GRAM]
        rows = found.setdefault(draw.context, [])
        if len(gram) == GRAM and len(rows) < MOST_PER_ARM:
            rows.append(gram)
    return {context: np.array(rows, dtype=np.int64).reshape(-1, GRAM) for context, rows in found.items()}


def kernel(x: Ints) -> Floats:
    """[n, 3] -> [n, n]: Π (1 + w·[tokens agree]) over the three places, which tells all joint distributions apart.

    It is the product of kernels that are characteristic on a finite set, so the discrepancy is 0 for equal
    distributions only (Gretton et al., 2012). Single tokens have tests of their own, hence the weight on pairs and
    triples.
    """
    agree = x[:, None, :] == x[None, :, :]
    return np.asarray((1.0 + _WEIGHT * agree).prod(-1))


def permutations_for(level: float) -> int:
    """So many that the smallest p-value is half the level of the test at most: it can reject by itself."""
    return max(PERMUTATIONS, math.ceil(2 / level))


def permutation_test(
    a: dict[int, Ints], b: dict[int, Ints], rng: np.random.Generator, permutations: int = PERMUTATIONS
) -> TestResult:
    """MMD² between two samples, summed over contexts; labels are permuted within each context.

    Exact at any sample size: under equal distributions the labels of draws are exchangeable.
    """
    contexts = sorted(c for c in a.keys() & b.keys() if min(len(a[c]), len(b[c])) > 1)
    if not contexts:
        return not_made(NAME, "no context has three tokens after the first, in both arms")
    observed, permuted, n = 0.0, np.zeros(permutations), 0
    for context in contexts:
        x, y = a[context], b[context]
        signs = np.concatenate([np.full(len(x), 1 / len(x)), np.full(len(y), -1 / len(y))])
        k = kernel(np.concatenate([x, y]))
        observed += float(_quadratic(signs[None], k)[0])
        n += len(signs)
        for begin in range(0, permutations, _CHUNK):
            rows = np.tile(signs, (min(_CHUNK, permutations - begin), 1))
            rows = rng.permuted(rows, axis=1)
            permuted[begin : begin + len(rows)] += _quadratic(rows, k)
    # Ties are as extreme as what was observed; rounding must not break them.
    beyond = int((permuted >= observed - _ROUNDING * max(1.0, observed)).sum())
    return TestResult(
        NAME, statistic=observed, p=(1 + beyond) / (1 + permutations), n=n, detail=f"{len(contexts)} contexts"
    )


def _quadratic(rows: Floats, k: Floats) -> Floats:
    # rows [P, n] · k [n, n] -> [P]
    return np.asarray(((rows @ k) * rows).sum(1))
