"""Memory, utilization and power over the measured time, measurements end to end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from specbench.analysis.resources import resources
from specbench.report import figures
from specbench.report.end_to_end import end_to_end, step_for
from specbench.store.measurement import Measurement
from specbench.telemetry.sample import Sample

_MOST_SAMPLES = 6_000
"""In the whole page, which has 3 MB at most."""

READINGS: Mapping[str, Callable[[Sample], float | None]] = {
    "memory, GiB": lambda s: None if s.memory_bytes is None else s.memory_bytes / 2**30,
    "utilization, %": lambda s: s.utilization_percent,
    "SM activity, %": lambda s: s.sm_activity_percent,
    "DRAM activity, %": lambda s: s.dram_activity_percent,
    "power, W": lambda s: s.power_watts,
    "SM clock, MHz": lambda s: s.sm_clock_mhz,
}
"""What is drawn over time, where a source tells it."""


def telemetry(measurements: Sequence[Measurement]) -> dict[str, Any]:
    """`spans`: a mark per measurement, from and to in seconds; `samples`: by source rows of seconds and `READINGS`.

    The time between measurements (launches, warm-up) is not sampled. Long runs are thinned.
    """
    step = step_for(sum(len(m.telemetry) for m in measurements), _MOST_SAMPLES)
    spans, samples = [], defaultdict(list)
    for span in end_to_end(measurements):
        spans.append(_span(span.measurement, span.begin, span.end))
        seen: dict[str, int] = defaultdict(int)
        for s in span.measurement.telemetry:
            if seen[s.source] % step == 0:
                values = [_rounded(read(s)) for read in READINGS.values()]
                samples[s.source].append([round(span.place(s.time), 2), *values])
            seen[s.source] += 1
    return {"readings": [*READINGS], "spans": spans, "samples": samples}


def _span(m: Measurement, begin: float, end: float) -> dict[str, Any]:
    used, cell = resources(m.telemetry), m.cell
    load = f"{cell.request_rate:g} requests/s" if cell.request_rate is not None else f"batch size {cell.batch_size}"
    label = cell.speculation.label
    facts = [
        ("launch", m.launch),
        ("lasted", f"{end - begin:.1f} s"),
        ("memory, peak", f"{figures.gibibytes(used.memory_bytes_peak)} GiB"),
        ("utilization, mean", figures.percent(_share(used.utilization_percent_mean))),
    ]
    if used.power_watts_mean is not None:
        facts.append(("power, mean", f"{used.power_watts_mean:.0f} W"))
    name = f"{label}, {load}, {cell.workload}"
    return {"from": begin, "to": end, "launch": m.launch, "label": label, "name": name, "facts": facts}


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
