"""What two runs must have in common for their figures to be set side by side: all of them, or some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from specbench.comparison.fingerprint import WORK
from specbench.comparison.metrics import Metric
from specbench.comparison.snapshot import Snapshot
from specbench.differences import differences, differing

_REQUESTS = ("target", "arrivals", *(f"--{name.replace('_', '-')}" for name in WORK))
_PLACE = ("hardware", "--device", "backend")


@dataclass(frozen=True, slots=True)
class Likeness:
    """refused: why nothing may be compared;  workloads: by name, why its cells may not be
    elsewhere: what sets machines or engines apart, so that times and rates may not be compared; ratios may
    """

    refused: tuple[str, ...] = ()
    workloads: Mapping[str, str] = field(default_factory=dict)
    elsewhere: tuple[str, ...] = ()

    def allows(self, metric: Metric) -> bool:
        return not (metric.raw and self.elsewhere)


def likeness(a: Snapshot, b: Snapshot) -> Likeness:
    """The same target must have answered the same requests. Options, versions, engine and machine may differ: they are
    what comparisons are for. What only one of both knows of is no difference.
    """
    known = a.fingerprint.keys() & b.fingerprint.keys()
    refused = differences(a.fingerprint, b.fingerprint, known & set(_REQUESTS))
    if a.simulated != b.simulated:
        refused = [f"{(a if a.simulated else b).run} is a simulation, and nothing of it is a measurement"]
    prompts = {name for name in known if name.startswith("workload ")}
    return Likeness(
        tuple(refused),
        {d.name.removeprefix("workload "): str(d) for d in differing(a.fingerprint, b.fingerprint, prompts)},
        tuple(differences(a.fingerprint, b.fingerprint, known & set(_PLACE))),
    )
