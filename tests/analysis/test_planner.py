"""How much to measure: from a noise that is told, and from that of a run."""

from __future__ import annotations

import math
from statistics import stdev

import numpy as np
import pytest
from known_run import NGRAM, measurement

from specbench.analysis.decision import LEAST_PAIRS
from specbench.analysis.planner import (
    gate_need,
    measured_noise,
    pooled,
    seconds_per_replicate,
    sweep_need,
)
from specbench.analysis.power import pairs_for_regression
from specbench.analysis.sequential import Looks
from specbench.store.measurement import Measurement

STEPS = (0.01, 0.011, 0.0104)


def run() -> list:  # type: ignore[type-arg]
    return [
        m
        for replicate, step in enumerate(STEPS)
        for m in (measurement(replicate=replicate), measurement(NGRAM, accepted=3, replicate=replicate, steps=(step,)))
    ]


def test_a_sweep_needs_the_pairs_of_the_table_and_more_for_looking() -> None:
    need = sweep_need(0.03, 0.02, 0.9)
    assert need.pairs == 7
    assert need.pairs_until_ci is not None
    assert need.pairs_until_ci > need.pairs


def test_a_gate_takes_five_pairs_even_where_fewer_have_the_power() -> None:
    need = gate_need(0.2, 0.03, 0.005, 0.9)
    assert (need.pairs, need.pairs_equivalent, need.looks) == (LEAST_PAIRS, LEAST_PAIRS, (LEAST_PAIRS,))


def test_the_last_look_finds_the_loss_at_what_the_earlier_ones_left_of_the_level() -> None:
    need = gate_need(0.05, 0.03, 0.02 * math.sqrt(2), 0.95)
    assert need.pairs == 26
    assert need.looks is not None
    level = Looks(need.looks).level(need.looks[-1])
    alone = pairs_for_regression(math.log(0.95), -math.log(0.97), 0.02 * math.sqrt(2), 0.95, level)
    assert alone is not None
    assert 26 < alone <= need.looks[-1] < 1.3 * 26
    assert need.false_alarm_rate is not None
    assert need.false_alarm_rate < 1e-3


def test_a_change_in_the_noise_is_what_nobody_measures() -> None:
    assert sweep_need(1e-5, 0.5, 0.9).pairs is None


def test_a_run_tells_its_own_noise() -> None:
    (noise,) = measured_noise(run())
    logs = [math.log(0.5 / (0.1 + 10 * step)) for step in STEPS]
    assert (noise.cell, noise.replicates) == ("chat-ngram-g4-b1", 3)
    assert noise.noise == pytest.approx(stdev(logs))
    # Every request accepts alike, so one tells it all.
    assert noise.acceptance_prompts == 1
    assert measured_noise(run()[:2]) == []


def test_noises_are_pooled_by_their_degrees_of_freedom() -> None:
    (noise,) = measured_noise(run())
    assert pooled([noise, noise]) == pytest.approx(noise.noise)
    assert pooled([noise]) == pytest.approx(float(np.sqrt(noise.noise**2)))


def test_a_replicate_takes_from_one_start_to_the_next() -> None:
    started = ["2030-01-01T00:00:00+00:00", "2030-01-01T00:04:00+00:00", "2030-01-01T00:10:00+00:00"]
    measurements = [measurement(replicate=r, started_at=at) for r, at in enumerate(started)]
    assert seconds_per_replicate(measurements) == 300
    assert seconds_per_replicate(measurements[:1]) is None


def test_neither_a_pause_nor_a_replicate_that_was_measured_last_changes_what_one_takes() -> None:
    """Each launch is measured twice, for 4 s; a server takes 26 s to start and a warm-up 6 s."""

    def at(minute: int, second: int, replicate: int, repeat: int) -> Measurement:
        started = f"2030-01-01T{minute // 60:02}:{minute % 60:02}:{second:02}+00:00"
        return measurement(replicate=replicate, repeat=repeat, started_at=started)

    steady = [at(2 * i // 3, 40 * i % 60 + 10 * k, i, k) for i in range(3) for k in (0, 1)]
    assert seconds_per_replicate(steady) == pytest.approx(4 + 26 + 4 + 6)
    again = [at(600, 10 * k, 0, k) for k in (0, 1)]  # the first one, after a night
    assert seconds_per_replicate([*steady[2:], at(2, 0, 3, 0), at(2, 10, 3, 1), *again]) == pytest.approx(40)
