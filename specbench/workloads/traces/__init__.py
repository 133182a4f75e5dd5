"""Traces: what came to a real deployment, read from the formats that such records are published and logged in."""

from specbench.workloads.traces.formats import FORMATS, TraceFormat
from specbench.workloads.traces.read import Trace, read_trace, read_traffic
from specbench.workloads.traces.units import UNITS

__all__ = ["FORMATS", "UNITS", "Trace", "TraceFormat", "read_trace", "read_traffic"]
