"""Where the target's probabilities are worth asking for: each place costs a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from specbench.equivalence.sampling.observations import Draw, Place
from specbench.equivalence.sampling.strata import LEAST_DRAWS

MOST_PLACES = 600


def crowded(samples: Iterable[Sequence[Draw]]) -> list[Place]:
    """Where enough draws of a sample went on to be counted; the most crowded first.

    What was drawn there plays no part in the choice, so that the tests need not know of it.
    """
    counts: Counter[Place] = Counter()
    for draws in samples:
        counts |= Counter(draw.place(position) for draw in draws for position in draw.stepped())
    return [place for place, count in counts.most_common(MOST_PLACES) if count >= LEAST_DRAWS]


def whole_outputs(draws: Iterable[Draw], positions: int) -> list[Place]:
    """Every place of as many outputs, in their order, as have that many tokens from steps."""
    found: dict[Place, None] = {}
    left = positions
    for draw in draws:
        if left <= 0:
            break
        left -= len(draw.stepped())
        found |= dict.fromkeys(draw.place(position) for position in draw.stepped())
    return list(found)
