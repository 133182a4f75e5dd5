"""Steps of many requests added up: the counts, and the rates that follow from them."""

from __future__ import annotations

import numpy as np

from specbench.acceptance import AcceptanceCounts
from specbench.profile.offsets import Ints, Steps


class Tally:
    """Steps with one gamma.

    tokens: emitted by these steps; a request's first token, which comes from its prefill, is none of them
    """

    def __init__(self, gamma: int) -> None:
        self.gamma, self.tokens = gamma, 0
        # Steps by the number of tokens accepted, and drafted, 0..gamma each.
        self._accepted, self._drafted = (np.zeros(gamma + 1, np.int64) for _ in range(2))
        # Steps in which position k, 0..gamma-1, was judged after all before it were accepted.
        self._at_risk = np.zeros(gamma, np.int64)

    def add(self, steps: Steps) -> None:
        self.tokens += int(steps.emitted.sum())
        self._accepted += np.bincount(steps.accepted, minlength=self.gamma + 1)
        self._drafted += np.bincount(steps.drafted, minlength=self.gamma + 1)
        last_at_risk = np.minimum(steps.accepted, steps.judged - 1)
        self._at_risk += _at_least(np.bincount(last_at_risk[last_at_risk >= 0], minlength=self.gamma))

    def counts(self) -> AcceptanceCounts:
        lengths = np.arange(self.gamma + 1)
        return AcceptanceCounts(
            steps=int(self._accepted.sum()),
            drafted=int(lengths @ self._drafted),
            accepted=int(lengths @ self._accepted),
            drafts=int(self._drafted[1:].sum()),
            by_position=tuple(_at_least(self._accepted)[1:].tolist()),
        )

    def conditional(self) -> tuple[float | None, ...]:
        """P(token k accepted, given that those before it were and that it was judged); None where none was."""
        kept = _at_least(self._accepted)[1:]
        return tuple(float(n / d) if d else None for n, d in zip(kept, self._at_risk, strict=True))

    def alpha(self) -> float | None:
        """Pooled estimate of the per-token acceptance: accepted / (accepted + rejections), as `analysis.acceptance`."""
        judged = int(self._at_risk.sum())
        return self.counts().accepted / judged if judged else None


def _at_least(histogram: Ints) -> Ints:
    """How many have at least 0, 1, 2, … where `histogram` says how many have exactly that."""
    counts: Ints = np.cumsum(histogram[::-1])[::-1]
    return counts
