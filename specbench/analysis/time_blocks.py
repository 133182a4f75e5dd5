"""The interval of one long launch: throughput second by second, in blocks longer than its own memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from specbench.analysis.bootstrap import log_mean_error
from specbench.analysis.statistics import Estimate, Interval, around
from specbench.replay.records import RequestTrace
from specbench.replay.timeline import arrivals
from specbench.replay.window import Window

_Floats = npt.NDArray[np.float64]

BIN_SECONDS = 1.0


def window_series(traces: Iterable[RequestTrace], window: Window) -> _Floats:
    """Output tokens made in each whole second of the window, [floor(window.length)].

    Tokens are spread over the gap that brought them, as `replay.window.tokens_in` does.
    """
    edges = window.start + BIN_SECONDS * np.arange(int(window.length / BIN_SECONDS) + 1)
    made = np.zeros(len(edges))
    for trace in traces:
        times, tokens = arrivals(trace)
        if len(times):
            made += np.interp(edges, np.append(trace.sent, times), np.append(0, np.cumsum(tokens)))
    return np.diff(made)


def block_interval(speculative: Sequence[_Floats], baseline: Sequence[_Floats], centre: float) -> Interval | None:
    """Interval around `centre`, the log ratio of throughput, from the two arms' series within one launch.

    speculative, baseline: one series per repeat
    None where an arm is too short (fewer than ten blocks). It says nothing of how launches differ.
    """
    found = [log_mean_error(arm) for arm in (speculative, baseline)]
    known = [arm for arm in found if arm is not None]
    if len(known) < 2:
        return None
    variance = sum(error**2 for error, _ in known)
    parts = sum(error**4 / (blocks - 1) for error, blocks in known)
    dof = variance**2 / parts if parts else float(sum(blocks - 1 for _, blocks in known))  # Welch–Satterthwaite
    return around(Estimate(centre, math.sqrt(variance), dof), "within one launch, by time block")
