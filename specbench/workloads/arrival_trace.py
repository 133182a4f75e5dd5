"""Recorded arrivals: when requests came to a real deployment, of any trace that specbench reads."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@cache
def read_arrival_trace(path: Path) -> NDArray[np.float64]:
    """Seconds since the first arrival, in order. Raises SpecbenchError naming file and line.

    Read once: a sweep asks for it before it begins and at every measurement.
    """
    from specbench.workloads.traces.read import read_arrivals  # pandas: only who has a trace waits for it

    times = read_arrivals(path)
    times.flags.writeable = False  # they are everybody's
    return times
