"""How often the gate errs: whole verdicts over many simulated runs whose machine drifts, figures as stored."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from known_gate import snapshot

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from decision_rule import LOSS, World, gate_looks

from specbench.comparison.snapshot import Snapshot
from specbench.gate.judge import judge
from specbench.gate.rules import Rules

WORLD = World(noise=0.014, cell_noise=0.014)
"""2 % a cell and arm, part of it the launch's own, so that cells of one launch go together."""

LOOKS = gate_looks(WORLD)
FIGURES = {"speedup": Rules(), "output_tokens_per_s": Rules(metrics=("output_tokens_per_s",))}


def sides(logs: np.ndarray, days: tuple[float, float] = (0.0, 0.0)) -> list[Snapshot]:
    """Of log throughput [2 sides, replicates, 2 arms, cells]: the snapshots of two runs on days that differ."""
    made = []
    for run, side, day in zip("ab", logs, days, strict=True):
        speeds = 100 * np.exp(side[:, 1] + day)
        figures = {"speedup": np.exp(side[:, 1] - side[:, 0] + math.log(1.5)), "output_tokens_per_s": speeds}
        made.append(snapshot({name: values.T.tolist() for name, values in figures.items()}, run=run))
    return made


def failures(rules: Rules, series: int, replicates: int, cells: int, loss: float, seed: int) -> int:
    """Gates of two stored runs that fail; the second run's speculative arm lost `loss`."""
    rng = np.random.default_rng(seed)
    logs = WORLD.pairs(rng, 2 * series, replicates, cells).reshape(2, series, replicates, 2, cells)
    logs[1, :, :, 1] += math.log1p(-loss)
    days = WORLD.session * rng.standard_normal((series, 2))
    return sum(judge(*sides(logs[:, i], (days[i, 0], days[i, 1])), rules).verdict == "FAIL" for i in range(series))


@pytest.mark.parametrize(("replicates", "cells"), [(5, 1), (5, 4), (10, 4)])
def test_of_stored_runs_that_do_not_differ_as_good_as_none_fails(replicates: int, cells: int) -> None:
    """One in 1,000 is promised: five in 1,000 gates would be seen with probability .004 at that rate."""
    assert failures(Rules(), 1_000, replicates, cells, 0.0, 7) < 5


def test_a_loss_of_ten_percent_is_found_with_ten_replicates() -> None:
    assert failures(Rules(), 300, 10, 1, 0.10, 8) > 285


def test_raw_throughput_of_stored_runs_errs_more_often_as_its_caveat_says() -> None:
    """Which is why speedup is the default: the same runs, another figure."""
    raw, ratio = (
        failures(rules, 1_500, 10, 1, 0.0, 9) for rules in (FIGURES["output_tokens_per_s"], FIGURES["speedup"])
    )
    assert raw > 10 > ratio


def interleaved(loss: float, cells: int, rng: np.random.Generator) -> str:
    """A session's verdict: throughput of two engine versions in turns, looked at as planned for this noise."""
    logs = WORLD.pairs(rng, 1, LOOKS.sizes[-1], cells, math.log1p(-loss))[0]  # [pairs, 2 sides, cells]
    for size in LOOKS.sizes:
        both = [
            snapshot({"output_tokens_per_s": (100 * np.exp(logs[:size, side])).T.tolist()}, run="ab"[side])
            for side in (0, 1)
        ]
        result = judge(*both, Rules(metrics=("output_tokens_per_s",), paired=True, level=LOOKS.level(size)))
        if not result.wants_more:
            break
    return result.verdict


def test_an_interleaved_session_finds_five_percent_and_invents_nothing() -> None:
    rng = np.random.default_rng(11)
    verdicts = [interleaved(LOSS, 1, rng) for _ in range(300)]
    assert verdicts.count("FAIL") > 0.92 * 300  # .96 by benchmarks/decision_rule.py
    assert [interleaved(0.0, 2, rng) for _ in range(500)].count("FAIL") < 4
