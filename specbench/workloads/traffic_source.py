"""Traffic as a command line names it: a trace's file, a run's directory, or words."""

from __future__ import annotations

from specbench.errors import SpecbenchError
from specbench.paths import expand_home
from specbench.workloads.traces import Trace, read_trace
from specbench.workloads.traffic_spec import TrafficSpec, parse_traffic_spec


def find_traffic(
    written: str, form: str | None = None, time_unit: str | None = None, *, tokens_per_month: float | None = None
) -> Trace | TrafficSpec:
    """The trace of that name, else the traffic that the words say.

    form, time_unit: as `read_trace` takes them;  tokens_per_month: in the place of the words' rate
    Raises SpecbenchError for what is neither.
    """
    path = expand_home(written)
    if written.strip() and path.exists():
        return read_trace(path, form, time_unit)
    if form is not None or time_unit is not None:
        raise SpecbenchError(f"no trace {written}; --format and --time-unit are for traces alone.")
    try:
        return parse_traffic_spec(written, tokens_per_month=tokens_per_month)
    except SpecbenchError as error:
        if " " in written.strip():
            raise
        raise SpecbenchError(f"no trace {written}, and no traffic in words either: {error}") from None
