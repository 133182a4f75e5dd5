"""The performance model's limits: what it must give where the answer is known without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_cells import LLAMA_70B, MODEL, THETA, point

from specbench.planning.machine import Machine
from specbench.planning.performance import (
    Drafting,
    Efficiency,
    communication_seconds,
    draft_seconds,
    forward_seconds,
    tokens_per_second,
)
from specbench.planning.shape import ModelShape

SHAPE = ModelShape.of(LLAMA_70B)
ONE = Machine(bandwidth=4.8e12, flops=989e12)
PERFECT = Efficiency(0.0, 1.0, 1.0, 1.0, 0.0, 1.0)


def test_a_perfect_engine_at_batch_one_is_as_fast_as_the_memory_roof() -> None:
    reading = SHAPE.bytes_read(1, 1000) / 4.8e12
    computing = SHAPE.flops(1, 1000) / 989e12
    assert forward_seconds(1, 1, 1000, SHAPE, ONE, PERFECT) == pytest.approx(reading + computing)


def test_a_large_exponent_is_full_overlap() -> None:
    overlapped = forward_seconds(1, 1, 0, SHAPE, ONE, replace(PERFECT, exponent=1e3))
    assert overlapped == pytest.approx(SHAPE.bytes_read(1, 0) / 4.8e12, rel=1e-3)
    busy = forward_seconds(4096, 1, 0, SHAPE, ONE, replace(PERFECT, exponent=1e3))
    assert busy == pytest.approx(SHAPE.flops(4096, 0) / 989e12, rel=1e-3)


def test_two_devices_take_half_the_time_plus_what_they_say_to_each_other() -> None:
    two = replace(ONE, count=2)
    alone, shared = (forward_seconds(8, 8, 500, SHAPE, machine, PERFECT) for machine in (ONE, two))
    assert communication_seconds(8, SHAPE, ONE) == 0
    assert shared == pytest.approx(alone / 2 + communication_seconds(8, SHAPE, two))
    # A ring moves (g − 1)/g of the values twice; two all-reduces per layer.
    moved = 2 * 80 * (10e-6 + 2 * 0.5 * 8 * 8192 * 2 / 450e9)
    assert communication_seconds(8, SHAPE, two) == pytest.approx(moved)


@given(st.integers(1, 500), st.integers(0, 8), st.integers(1, 50_000))
def test_more_tokens_or_context_take_longer(sequences: int, gamma: int, context: int) -> None:
    engine = Efficiency(1e-3, 0.7, 0.5, 1.4, 2e-5, 1.0)
    step = forward_seconds(sequences * (gamma + 1), sequences, context, SHAPE, ONE, engine)
    assert forward_seconds(sequences * (gamma + 2), sequences, context, SHAPE, ONE, engine) > step
    assert forward_seconds(sequences * (gamma + 1), sequences, context + 1, SHAPE, ONE, engine) > step


def test_a_drafter_that_costs_nothing_takes_no_time_and_one_like_the_target_takes_its_step() -> None:
    assert draft_seconds(5, 0.02, Drafting(0.0, 0.0)) == 0
    assert draft_seconds(5, 0.02, Drafting(1.0, 0.0)) == pytest.approx(5 * 0.02)


def test_without_prefill_a_loop_of_long_answers_gives_batch_times_length_per_step() -> None:
    assert tokens_per_second(8, 0.02, 2.5, 0.0, 1e9) == pytest.approx(8 * 2.5 / 0.02)


def test_littles_law_holds() -> None:
    """In flight are requests per second × seconds of one, which waits for the prefills of all and for its steps."""
    rate = tokens_per_second(8, 0.02, 2.0, 0.1, 101)
    seconds = 8 * 0.1 + 100 / 2.0 * 0.02
    assert rate / 101 * seconds == pytest.approx(8)


@given(st.integers(1, 256), st.sampled_from(["eagle3", "ngram"]))
def test_gamma_zero_is_the_baseline(batch_size: int, method: str) -> None:
    off = MODEL.steps(THETA, [replace(point(method, 1, batch_size), gamma=0)])
    plain = MODEL.steps(THETA, [point(method, 1, batch_size).plain])
    assert off.tokens_per_second == plain.tokens_per_second
    assert off.draft == 0
    assert off.verify == off.plain
    assert off.length == 1


@given(st.sampled_from(["eagle3", "ngram"]), st.integers(0, 7), st.integers(1, 200))
def test_a_larger_batch_gives_more_tokens_and_takes_longer_steps(method: str, gamma: int, size: int) -> None:
    steps = MODEL.steps(THETA, [point(method, gamma, size), point(method, gamma, size + 1)])
    assert steps.tokens_per_second[1] > steps.tokens_per_second[0]
    assert steps.verify[1] + steps.draft[1] > steps.verify[0] + steps.draft[0]


def test_a_matrix_of_draws_gives_each_draws_own_steps() -> None:
    points = [point("eagle3", 3, 4), point("ngram", 2, 16), point("none", 0, 64)]
    draws = np.stack([THETA, THETA + 0.1, THETA - 0.2])
    together = MODEL.steps(draws, points).tokens_per_second
    assert together.shape == (3, 3)
    for row, theta in zip(together, draws, strict=True):
        assert row == pytest.approx(MODEL.steps(theta, points).tokens_per_second)
