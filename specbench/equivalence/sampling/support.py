"""Tokens that the target cannot draw at all: one outside the nucleus is one too many."""

from __future__ import annotations

from collections.abc import Iterable

from specbench.equivalence.sampling.observations import Draw, Known, Place
from specbench.equivalence.sampling.power import detectable_leak
from specbench.equivalence.sampling.results import TestResult, not_made
from specbench.equivalence.sampling.strata import Positions

NAME = "support"


def outside(draws: Iterable[Draw], known: Known, positions: Positions) -> tuple[int, list[tuple[Place, int]]]:
    """How many tokens were drawn where the target's distribution is known whole, and which of them are not in it."""
    looked_at, found = 0, []
    for draw in draws:
        for position in positions(draw):
            distribution = known.get(place := draw.place(position))
            if distribution is not None and distribution.is_whole:
                looked_at += 1
                if draw.tokens[position] not in distribution.tokens:
                    found.append((place, draw.tokens[position]))
    return looked_at, found


def support_test(looked_at: int, found: Iterable[tuple[Place, int]], wider: Known) -> TestResult:
    """p is 0 if a token was drawn that has probability 0, else 1.

    wider: distributions with a slightly larger nucleus, at the places of `found`: rounding decides what lies on its
        edge, so a token that is in there is no finding
    """
    if looked_at == 0:
        return not_made(NAME, "nowhere is the target's whole distribution known (top-p off, or wider than was listed)")
    leaked = [(place, token) for place, token in found if place not in wider or token not in wider[place].tokens]
    detail = f"{len(leaked)} of {looked_at} tokens outside the nucleus"
    if leaked:
        place, token = leaked[0]
        detail += f", first token {token} after {len(place[1])} tokens of context {place[0]}"
    return TestResult(
        NAME,
        statistic=float(len(leaked)),
        p=0.0 if leaked else 1.0,
        n=looked_at,
        detectable=detectable_leak(looked_at),
        detail=detail,
    )
