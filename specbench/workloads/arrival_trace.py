"""Recorded arrivals: when requests came to a real deployment, of any trace that specbench reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def read_arrival_trace(path: Path) -> NDArray[np.float64]:
    """Seconds since the first arrival, in order. Raises SpecbenchError naming file and line."""
    from specbench.workloads.traces.read import read_arrivals  # pandas: only who has a trace waits for it

    return read_arrivals(path)
