"""Traffic as a command line names it: a trace's file, a run's directory, or words."""

from __future__ import annotations

from pathlib import Path

from specbench.errors import SpecbenchError
from specbench.workloads.traces import Trace, read_trace
from specbench.workloads.traffic_spec import TrafficSpec, parse_traffic_spec


def find_traffic(written: str, form: str | None = None, time_unit: str | None = None) -> Trace | TrafficSpec:
    """The trace of that name, else the traffic that the words say.

    form, time_unit: as `read_trace` takes them. Raises SpecbenchError for what is neither.
    """
    path = Path(written).expanduser()
    if path.exists():
        return read_trace(path, form, time_unit)
    try:
        return parse_traffic_spec(written)
    except SpecbenchError as error:
        if " " in written.strip():
            raise
        raise SpecbenchError(f"no trace {written}, and no traffic in words either: {error}") from None
