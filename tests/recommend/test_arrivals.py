"""A request rate on a closed loop's throughput: against queues with a formula, and against the known-truth engine."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import known_run
import numpy as np
import pytest
import virtual_engine
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.bootstrap import RESAMPLES
from specbench.recommend.arrivals import AtRate, at_rate
from specbench.recommend.curves import GammaByBatch
from specbench.recommend.evidence import Evidence
from specbench.recommend.recommendation import recommend
from specbench.recommend.text import text
from specbench.replay.records import RequestTrace
from specbench.schedule import Schedule
from specbench.simulated.scenario import Scenario
from specbench.speculation import BASELINE, Speculation
from specbench.store.measurement import Cell, Measurement


def predicted(rates: dict[int, float], rate: float, speedup: float = 1.0) -> AtRate:
    """Of a server that completes so many requests per second with so many there, and of one that much faster."""
    logs = {size: (math.log(x), np.full(RESAMPLES, math.log(x))) for size, x in rates.items()}
    evidence = Evidence(("chat",), tuple(rates), {}, {}, logs, ())
    gain = math.log(speedup)
    sizes = range(1, max(rates) + 1)
    faster = GammaByBatch("ngram", dict.fromkeys(sizes, 4), {s: (gain, np.full(RESAMPLES, gain)) for s in sizes})
    return at_rate(evidence, faster, rate)


@given(st.floats(0.05, 0.9))
def test_one_request_at_a_time_is_the_queue_m_m_1(load: float) -> None:
    at = predicted({1: 10.0, 8: 10.0}, 10 * load)
    assert at.plain is not None
    assert at.plain.concurrency.value == pytest.approx(load / (1 - load))
    assert at.plain.latency.value == pytest.approx(0.1 / (1 - load))
    assert at.latency_speedup is not None
    assert at.latency_speedup.value == pytest.approx(1)


@given(st.integers(2, 16), st.floats(0.1, 0.9))
def test_requests_that_do_not_slow_each_other_are_the_queue_m_m_c(servers: int, load: float) -> None:
    at = predicted({1: 2.0, servers: 2.0 * servers}, 2 * servers * load)
    offered = servers * load
    waiting = offered**servers / math.factorial(servers) / (1 - load)
    below = math.fsum(offered**n / math.factorial(n) for n in range(servers))
    erlang_c = waiting / (below + waiting)
    assert at.plain is not None
    assert at.plain.concurrency.value == pytest.approx(offered + erlang_c * load / (1 - load))
    assert at.plain.waiting == pytest.approx(erlang_c * load)


def test_a_faster_server_holds_fewer_requests_so_it_gains_more_than_at_the_same_batch_size() -> None:
    at = predicted({1: 2.0, 4: 4.0, 16: 8.0}, 6, speedup=1.2)
    assert at.plain is not None
    assert at.speculative is not None
    assert (at.speculative.concurrency.value or 0) < (at.plain.concurrency.value or 0) / 1.2
    assert at.latency_speedup is not None
    assert (at.latency_speedup.value or 0) > 1.2


def test_where_plain_decoding_cannot_keep_up_that_is_said_and_no_ratio_given() -> None:
    at = predicted({1: 2.0, 4: 4.0}, 4.2, speedup=1.5)
    assert at.plain is not None
    assert at.plain.latency.value is None
    assert at.speculative is not None
    assert at.speculative.latency.value is not None
    assert at.latency_speedup is None


SCENARIO = Scenario.model_validate(
    {
        "drafting": {"acceptance": {"alpha": 0.7}, "per_token_ms": 0.5},
        "step": {"weights_ms": 8, "compute_ms_per_token": 0.5, "overlap": 2, "per_sequence_ms": 0.2},
        "prefill": {"fixed_ms": 6},
        "output": {"tokens": 40, "sigma": 0.5},
    }
)
SIZES = (1, 2, 4, 8, 16)
RATE = 8.0


def measured(arm: Speculation, traces: list[RequestTrace], batch_size: int, rate: float | None = None) -> Measurement:
    cell = Cell("simulated", "any", "chat", arm, batch_size, 0.0, rate)
    return Measurement(
        id=f"{cell.id}-r0k0",
        launch=f"{arm.label}-r0",
        cell=cell,
        replicate=0,
        repeat=0,
        status="ok",
        started_at="2030-01-01T00:00:00",
        traces=tuple(traces),
    )


def test_the_prediction_from_closed_loops_is_what_an_open_loop_of_the_same_engine_shows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Mean latency, concurrency and their ratios within 5 %, at a rate that fills about half of the engine."""
    arms: dict[Speculation, dict[str, Any]] = {BASELINE: {}, Speculation("ngram", 3): {"method": "ngram", "gamma": 3}}
    closed = []
    for arm, options in arms.items():
        for size in SIZES:
            loop = virtual_engine.closed_loop(SCENARIO, options, size, max(80, 10 * size))
            closed.append(measured(arm, virtual_engine.run(monkeypatch, loop), size))
    run = known_run.store(tmp_path / "closed", closed)
    offsets = np.cumsum(np.random.default_rng(1).exponential(1 / RATE, 2_500)).tolist()
    opened = [
        measured(arm, virtual_engine.run(
            monkeypatch, virtual_engine.open_loop(SCENARIO, options, max(SIZES), offsets)
        ), max(SIZES), RATE)
        for arm, options in arms.items()
    ]  # fmt: skip
    made = recommend(run, rates=[RATE], open_loop=known_run.store(tmp_path / "open", opened))
    (at,), (seen,) = made.at_rates, made.measured_rates
    assert at.plain is not None
    assert at.speculative is not None
    assert at.plain.latency.value == pytest.approx(seen.plain_latency, rel=0.05)
    assert at.plain.concurrency.value == pytest.approx(seen.plain_concurrency, rel=0.05)
    assert at.speculative.latency.value == pytest.approx(seen.latency, rel=0.05)
    assert at.speculative.concurrency.value == pytest.approx(seen.concurrency, rel=0.05)
    assert at.latency_speedup is not None
    assert at.latency_speedup.value == pytest.approx(seen.latency_speedup.value, rel=0.05)
    # At this rate the batch sizes at which the schedule is off are rare, so the fixed gamma is predicted alike.
    assert seen.predicted is not None
    assert seen.predicted.latency_speedup is not None
    assert seen.predicted.latency_speedup.value == pytest.approx(at.latency_speedup.value, rel=0.01)
    shown = " ".join(text(made).split())
    assert "At 8 requests/s (measured, ngram γ3 on chat): latency" in shown
    assert "; predicted were " in shown


def test_the_engine_follows_a_schedule_step_by_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    schedule = Schedule.parse("1=3+2=1+4=0")
    options = {"method": "ngram", "gamma": 3, "schedule": str(schedule)}
    virtual_engine.run(monkeypatch, virtual_engine.closed_loop(SCENARIO, options, 5, 20, tmp_path / "truth.jsonl"))
    steps = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    drafted = {(s["batch"], s["drafted"]) for s in steps if s["record"] == "step"}
    assert drafted == {(batch, schedule.at(batch)) for batch in range(1, 6)}
