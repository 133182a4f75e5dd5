"""What a reader must not conclude from a difference of two runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from specbench.comparison.metrics import COST, Metric
from specbench.comparison.result import Effect
from specbench.comparison.sides import Side

OWN_BASELINE = (
    "A speedup is a ratio to the run's own plain decoding: what slows both down does not move it, and plain "
    "decoding that became faster lowers it."
)


def of_another_day(timed: Sequence[str]) -> str:
    """timed: names of metrics that a slow day moves"""
    return (
        f"{', '.join(timed)}: what sets two days apart (clocks, temperature, neighbours) is in no interval, so that "
        "such figures of two stored runs err more often than their level says. A speedup is free of it, and so is "
        "gate --interleave."
    )


def of(
    sides: Sequence[Side], metrics: Sequence[Metric], effects: Iterable[Effect], price: float | None
) -> Iterator[str]:
    """In the order in which they matter."""
    reference, *others = sides
    elsewhere = [other for other in others if not other.is_same_run(reference)]
    names = [metric.name for metric in metrics]
    timed = [metric.name for metric in metrics if metric.of_the_day]
    if any(name.endswith("speedup") for name in names) and elsewhere:
        if any(_differ(reference, other, "backend") for other in elsewhere):
            yield (
                "Two engines: each one's speedup is over its own plain decoding, so that a slow one has it easy. "
                "Which of them serves more tokens is another question."
            )
        elif any(_differ(reference, other, "hardware") for other in elsewhere):
            yield "Two machines: each one's speedup is over plain decoding on itself, and says nothing of its speed."
        else:
            yield OWN_BASELINE
    if timed and elsewhere:
        yield of_another_day(timed)
    if COST in names and price is not None:
        yield f"{COST}: every run is charged {price:g} per GPU-hour, whatever it was told."
    if any(effect.basis == "within one launch" for effect in effects):
        yield (
            "Where a side has one launch, nothing is judged: launches differ by more than the inside of one shows. "
            "Sweep with --replicates, five on each side if you can."
        )


def _differ(a: Side, b: Side, name: str) -> bool:
    return bool(a.snapshot.fingerprint.get(name) != b.snapshot.fingerprint.get(name))
