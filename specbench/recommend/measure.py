"""Does a schedule deliver? It is measured beside plain decoding and the best fixed gamma, on the run's own prompts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, Literal

import numpy as np

from specbench.analysis.json_values import to_json_value
from specbench.analysis.statistics import LEVEL
from specbench.analysis.summary import RunSummary, summarize
from specbench.decoder.tree_shape import CHAIN
from specbench.errors import SpecbenchError
from specbench.recommend.curves import gamma_by_batch
from specbench.recommend.draws import Floats, Range
from specbench.recommend.evidence import Evidence, gather
from specbench.recommend.recommendation import Recommendation
from specbench.schedule import PREFIX
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore
from specbench.sweep.config import SweepConfig
from specbench.sweep.config_file import load_config
from specbench.sweep.margins import probe_margins
from specbench.sweep.progress import Progress
from specbench.sweep.runner import Sweep, run_sweep

Delivered = Literal["as predicted", "better", "worse"]


@dataclass(frozen=True, slots=True)
class ScheduleCheck:
    """A schedule at one batch size.

    gamma:     what it proposes there; 0 is off
    predicted: speedup by the run that it comes from;  measured, fixed: of the schedule and of the best fixed gamma now
    delivered: whether measured and predicted differ by more than both are uncertain (95 %); None without a measurement
    """

    batch_size: int
    gamma: int
    predicted: Range
    measured: Range | None
    fixed: Range | None
    delivered: Delivered | None


def measuring_config(config: Mapping[str, Any], r: Recommendation, replicates: int | None) -> SweepConfig:
    """The run's own sweep, cut to plain decoding, the schedule and the best fixed gamma beside it.

    Raises SpecbenchError for an engine that specbench does not start.
    """
    if config.get("backend") == "attach":
        raise SpecbenchError("--measure-schedule starts the engine, and RUN is of servers that were running already.")
    assert r.method is not None
    assert r.fixed is not None
    drafters: Mapping[str, str] = config.get("drafter") or {}
    changes = {
        "workload": [path for path in config["workload"] if PurePath(path).stem in r.workloads],
        "method": [r.method],
        "drafter": {method: path for method, path in drafters.items() if method == r.method},
        "gamma": [r.fixed.gamma, f"{PREFIX}{r.schedule}"],
        "tree": [CHAIN],
        "until_ci": None,
        "baseline": "as-deployed" if config.get("baseline") == "as-deployed" else "matched",
        "baseline_vs_baseline": False,
        **({"replicates": replicates} if replicates else {}),
    }
    return load_config(None, {**config, **changes})


async def measure(sweep: Sweep, progress: Progress) -> None:
    """Measure all that is not there yet, arms in turns, and ask how near to ties outputs were."""
    await run_sweep(sweep, progress)
    await probe_margins(sweep, progress)
    sweep.store.compact()


@dataclass(frozen=True, slots=True)
class MeasuredSchedule:
    """run: the directory of the new run, which `specbench report` shows;  failures: of its measurements"""

    run: str
    method: str
    schedule: str
    fixed_gamma: int
    checks: tuple[ScheduleCheck, ...]
    failures: int

    @classmethod
    def of(
        cls, predicted: RunStore, measured: RunStore, r: Recommendation
    ) -> tuple[MeasuredSchedule, RunSummary, list[Measurement]]:
        """Both runs compared, with the summary and the measurements of the new one."""
        assert r.method is not None
        assert r.schedule is not None
        assert r.fixed is not None
        measurements = measured.measurements()
        summary = summarize(measured, measurements)
        before = [m for m in predicted.measurements() if m.cell.workload in r.workloads]
        checks = check_schedule(
            gather(summarize(predicted, before).cells, before),
            gather(summary.cells, measurements, schedules=True),
            r.method,
            r.fixed.gamma,
        )
        made = cls(str(measured.path), r.method, r.schedule, r.fixed.gamma, checks, len(summary.failures))
        return made, summary, measurements

    def to_json(self) -> dict[str, Any]:
        return {key: to_json_value(value) for key, value in asdict(self).items()}


def check_schedule(predicted: Evidence, measured: Evidence, method: str, fixed_gamma: int) -> tuple[ScheduleCheck, ...]:
    """Batch size by batch size. measured: evidence with schedules"""
    curve = gamma_by_batch(predicted, method)
    schedule = measured.arms.get((f"{method}-schedule", curve.schedule.largest), {})
    fixed = measured.arms.get((method, fixed_gamma), {})
    checks = []
    for size in predicted.batch_sizes:
        centre, draws = curve.at(size)
        found, beside = schedule.get(size), fixed.get(size)
        checks.append(
            ScheduleCheck(
                size,
                curve.gammas[size],
                Range.of(math.exp(centre), np.exp(draws)),
                None if found is None else Range.of(math.exp(found.log_speedup), np.exp(found.draws)),
                None if beside is None else Range.of(math.exp(beside.log_speedup), np.exp(beside.draws)),
                None if found is None else _delivered(draws, found.draws),
            )
        )
    return tuple(checks)


def _delivered(predicted: Floats, measured: Floats) -> Delivered:
    # Two runs share no launch, so their draws are independent: paired in another order.
    low, high = np.quantile(measured - predicted[::-1], [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return "better" if low > 0 else "worse" if high < 0 else "as predicted"
