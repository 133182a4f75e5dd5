"""Counts of next tokens by place: what the frequency tests are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from specbench.equivalence.sampling.observations import Draw, Floats, Known, Place

Positions = Callable[[Draw], Iterable[int]]

LEAST_DRAWS = 30
"""Places with fewer draws are left out: their cells would all be pooled into one or two."""

LEAST_SHARE, LEAST_EXPECTED = 0.01, 5.0
"""A cell with less probability, or fewer expected draws, is pooled: the chi-square distribution needs that many."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """The tokens drawn at one place. counts, probs: [k] both, by cell; the probabilities sum to 1"""

    counts: Floats
    probs: Floats

    @property
    def draws(self) -> float:
        return float(self.counts.sum())


def next_tokens(draws: Iterable[Draw], positions: Positions) -> dict[Place, Counter[int]]:
    """What followed at each place, over those positions of each draw."""
    found: dict[Place, Counter[int]] = {}
    for draw in draws:
        for position in positions(draw):
            found.setdefault(draw.place(position), Counter())[draw.tokens[position]] += 1
    return found


def strata(draws: Iterable[Draw], known: Known, positions: Positions, least: int = LEAST_DRAWS) -> list[Stratum]:
    """One stratum, pooled, for each place that is known and has `least` draws.

    Which places these are depends on what came before the tokens that are counted, never on those. Tokens that the
    target cannot draw at all are left out: they are for the support test.
    """
    found = []
    for place, followers in sorted(next_tokens(draws, positions).items()):
        if (distribution := known.get(place)) is not None and followers.total() >= least:
            probs = distribution.cells()
            counts = np.zeros(len(probs))
            for token, count in followers.items():
                counts[distribution.cell(token)] += count
            possible = probs > 0
            pooled = pool(counts[possible], probs[possible])
            if len(pooled.counts) > 1:
                found.append(pooled)
    return found


def pool(counts: Floats, probs: Floats) -> Stratum:
    """Cells that are too small become one; where that is still too small, the smallest of the others joins it."""
    least = max(LEAST_SHARE, LEAST_EXPECTED / max(counts.sum(), 1.0))
    order = np.argsort(-probs, kind="stable")
    counts, probs = counts[order], probs[order]
    kept = int((probs >= least).sum())
    if 0 < probs[kept:].sum() < least:
        kept = max(kept - 1, 0)
    if kept == len(probs):
        return Stratum(counts, probs)
    return Stratum(np.append(counts[:kept], counts[kept:].sum()), np.append(probs[:kept], probs[kept:].sum()))


def paired_counts(
    a: Iterable[Draw], b: Iterable[Draw], positions: Positions, least: int = LEAST_DRAWS
) -> list[tuple[Floats, Floats]]:
    """Counts [k] of the same cells in two samples, for each place that both saw `least` times; rare tokens pooled."""
    first, second = next_tokens(a, positions), next_tokens(b, positions)
    pairs = []
    for place in sorted(first.keys() & second.keys()):
        x, y = first[place], second[place]
        if min(x.total(), y.total()) >= least:
            tokens = sorted(x.keys() | y.keys(), key=lambda token: (-(x[token] + y[token]), token))
            table = np.array([[x[token] for token in tokens], [y[token] for token in tokens]], dtype=float)
            # Pooled by the total alone, which says nothing of a difference; both rows get their expected draws.
            needed = LEAST_EXPECTED * table.sum() / table.sum(1).min()
            kept = int((table.sum(0) >= max(needed, LEAST_SHARE * table.sum())).sum())
            if 0 < table[:, kept:].sum() < needed:
                kept = max(kept - 1, 0)
            table = np.column_stack([table[:, :kept], table[:, kept:].sum(1)]) if kept < len(tokens) else table
            if table.shape[1] > 1:
                pairs.append((table[0], table[1]))
    return pairs


def total_draws(parts: Sequence[Stratum]) -> int:
    return int(sum(part.draws for part in parts))
