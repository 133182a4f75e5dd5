"""What `--until-ci` looks at after every replicate."""

from __future__ import annotations

import math

import pytest
from known_run import NGRAM, failed, measurement

from specbench.analysis.precision import half_widths, log_ratios_by_cell
from specbench.analysis.sequential import always_valid_t
from specbench.speculation import AGAIN
from specbench.store.measurement import Measurement


def run(*steps: float) -> list[Measurement]:
    """A replicate per step time of the speculative arm."""
    return [
        m
        for replicate, step in enumerate(steps)
        for m in (measurement(replicate=replicate), measurement(NGRAM, accepted=3, replicate=replicate, steps=(step,)))
    ]


def test_a_speedup_is_known_to_half_the_width_of_its_always_valid_interval() -> None:
    measurements = run(0.01, 0.011, 0.0105, 0.0102, 0.0108)
    (ratios,) = log_ratios_by_cell(measurements).values()
    mean = sum(ratios) / 5
    spread = math.sqrt(sum((r - mean) ** 2 for r in ratios) / 4)
    assert half_widths(measurements) == {
        "chat-ngram-g4-b1": pytest.approx(math.expm1(always_valid_t(5) * spread / math.sqrt(5)))
    }


def test_after_two_replicates_nothing_is_known() -> None:
    assert half_widths(run(0.01, 0.011))["chat-ngram-g4-b1"] > 1e100


def test_a_cell_that_more_replicates_would_not_help_is_not_waited_for() -> None:
    """Failed ones, and windows that are too short: neither gets a speedup by trying again."""
    broken = [failed(replicate=0), measurement(replicate=0)]
    short = [measurement(NGRAM, 4, requests=4, accepted=3), measurement(batch_size=4, requests=4)]
    assert half_widths([*broken, *short]) == {}


def test_the_baseline_measured_again_is_a_cell_like_any_other() -> None:
    again = [measurement(AGAIN, replicate=r, steps=(0.01 + 0.0001 * r,)) for r in range(4)]
    found = half_widths([*again, *(measurement(replicate=r) for r in range(4))])
    assert list(found) == ["chat-none-again-b1"]
