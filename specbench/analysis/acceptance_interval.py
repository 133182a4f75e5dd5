"""Intervals of acceptance: over which prompts were asked, requests of a prompt being one cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from specbench.analysis.bootstrap import cluster_shifts
from specbench.analysis.statistics import LEVEL
from specbench.replay.records import RequestTrace

_Floats = npt.NDArray[np.float64]


def acceptance_intervals(traces: Iterable[RequestTrace]) -> dict[str, float]:
    """Ends of the 95 % intervals of mean acceptance length and draft acceptance rate, by column name.

    Percentiles of a bootstrap by prompt around the pooled ratio, in which long answers weigh more. Empty where fewer
    than two prompts tell their steps; without the rate where the engine does not say what was drafted.
    """
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    drafted_known = True
    for trace in traces:
        if (a := trace.acceptance) is not None and a.steps:
            drafted_known = drafted_known and a.drafted is not None
            row = sums[trace.prompt_id]
            row[0], row[1], row[2] = row[0] + a.steps, row[1] + a.accepted, row[2] + (a.drafted or 0)
    rows = np.array(list(sums.values()), dtype=float).reshape(-1, 3)
    if len(rows) < 2:
        return {}
    found = _ends("mean_acceptance_length", rows[:, [1, 0]], 1.0)
    return found | (_ends("draft_acceptance_rate", rows[:, [1, 2]], 0.0) if drafted_known else {})


def _ends(column: str, rows: _Floats, offset: float) -> dict[str, float]:
    """rows: [prompts, 2], numerator and denominator; the figure is `offset` more than their ratio."""
    total = rows.sum(axis=0)
    if not total[1]:
        return {}
    low, high = np.quantile(cluster_shifts(rows, _ratios), [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    centre = offset + total[0] / total[1]
    return {f"{column}_ci_low": float(centre + min(low, 0.0)), f"{column}_ci_high": float(centre + max(high, 0.0))}


def _ratios(sums: _Floats) -> _Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[:, 0] / sums[:, 1])
