"""Traces: what came to a real deployment, read from the formats that such records are published and logged in."""

from specbench.workloads.traces.formats import FORMATS
from specbench.workloads.traces.read import Trace, read_trace, read_traffic

__all__ = ["FORMATS", "Trace", "read_trace", "read_traffic"]
