"""A sweep says how long the rest takes, from what it has seen of itself."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from specbench.cli import progress
from specbench.sweep.config import SweepConfig
from specbench.sweep.plan import make_plan


def test_time_left_is_that_of_the_measurements_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 0.0, 240.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    text = io.StringIO()
    lines = progress._Lines(Console(file=text))
    plan = make_plan(SweepConfig(workload=(Path("chat.jsonl"),), replicates=2, batch_size=(1, 4)))  # 4 launches of 2
    lines.plan(plan, done=2)
    lines.launch(plan.launches[1], 2)  # nothing measured in this session yet
    for measurement in plan.launches[1].measurements:
        lines.measure(measurement, 8)
        lines.measured(measurement, None)
    lines.launch(plan.launches[2], 3)
    said = text.getvalue().splitlines()
    assert said[1] == "[2/4] starting ngram-g4-r0 …"
    assert said[-1] == "[3/4] starting ngram-g4-r1 … (about 8 min left)"  # 120 s each, four to go
