"""From a configuration to an ordered list of server launches, each with the measurements it serves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from specbench.replay.arrivals import trace_rate
from specbench.speculation import Speculation
from specbench.store.measurement import Cell
from specbench.sweep.config import SweepConfig


@dataclass(frozen=True, slots=True)
class PlannedMeasurement:
    """One cell to measure once."""

    id: str
    cell: Cell
    replicate: int
    repeat: int


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """One server start and what is measured on it, in order."""

    id: str
    speculation: Speculation
    measurements: tuple[PlannedMeasurement, ...]


@dataclass(frozen=True, slots=True)
class SweepPlan:
    launches: tuple[PlannedLaunch, ...]

    @property
    def measurements(self) -> tuple[PlannedMeasurement, ...]:
        return tuple(m for launch in self.launches for m in launch.measurements)

    def only(self, replicate: int, cells: Collection[Cell]) -> SweepPlan:
        """One replicate of it, and of that these cells alone."""
        left = (
            replace(
                launch,
                measurements=tuple(m for m in launch.measurements if m.replicate == replicate and m.cell in cells),
            )
            for launch in self.launches
        )
        return SweepPlan(tuple(launch for launch in left if launch.measurements))

    def visit(self, cells: Collection[Cell], taken: Collection[str]) -> SweepPlan:
        """The first of its launches that has measurements of these cells left, with those alone.

        taken: ids of measurements that are there already
        """
        for launch in self.launches:
            left = tuple(m for m in launch.measurements if m.cell in cells and m.id not in taken)
            if left:
                return SweepPlan((replace(launch, measurements=left),))
        return SweepPlan(())

    def without(self, done: Collection[str]) -> SweepPlan:
        """What is left of it when the measurements of these ids are there already."""
        left = (
            replace(launch, measurements=tuple(m for m in launch.measurements if m.id not in done))
            for launch in self.launches
        )
        return SweepPlan(tuple(launch for launch in left if launch.measurements))


def make_plan(config: SweepConfig) -> SweepPlan:
    """The launches of a sweep: every arm's once per replicate, the order reversed from one replicate to the next.

    The reversal (ABBA) makes a slow drift of the machine cancel in the ratio of two arms.
    """
    arms = config.speculations()
    return SweepPlan(
        tuple(
            launch
            for replicate in range(config.replicates)
            for arm in (arms if replicate % 2 == 0 else arms[::-1])
            for launch in _launches(config, arm, replicate)
        )
    )


def _launches(config: SweepConfig, arm: Speculation, replicate: int) -> tuple[PlannedLaunch, ...]:
    """One for all measurements; one for each of an arm that would remember the prompts of those before."""
    cells = (
        Cell(config.backend, config.target, path.stem, arm, batch_size, config.temperature, rate)
        for path in config.workload
        for batch_size, rate in _loads(config)
    )
    measurements = tuple(
        PlannedMeasurement(f"{cell.id}-r{replicate}k{repeat}", cell, replicate, repeat)
        for cell in cells
        for repeat in range(config.repeats)
    )
    if arm.cached_requests:
        return tuple(PlannedLaunch(measurement.id, arm, (measurement,)) for measurement in measurements)
    return (PlannedLaunch(f"{arm.label}-r{replicate}", arm, measurements),)


def _loads(config: SweepConfig) -> Sequence[tuple[int, float | None]]:
    """Batch sizes, or rates under the largest of them, which is the server's own limit in every arm.

    A trace that keeps its own times is known by its mean rate, to four digits.
    """
    if not config.is_open_loop:
        return [(batch_size, None) for batch_size in config.batch_size]
    trace = config.arrivals().trace
    rates = config.request_rate or ((float(f"{trace_rate(trace):.4g}"),) if trace else ())
    return [(max(config.batch_size), rate) for rate in rates]
