"""Seconds of a pass are those of the performance model, by the same formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.hardware.catalogue import catalogue, find_gpu
from specbench.planning.machine import Machine
from specbench.planning.performance import Drafting, Efficiency, draft_seconds, forward_seconds
from specbench.planning.shape import ModelShape
from specbench.planning.simulator import Acceptance, Replica, step_time
from specbench.planning.simulator.step_time import Cost, decode_seconds, pass_seconds, prefill_seconds

DENSE = ModelShape(layers=32, heads=32, kv_heads=8, head_dim=128, hidden=4096, shared=7.5e9)
SPARSE = replace(DENSE, shared=2e9, experts=40e9, routed=8, expert_count=128, weight_bytes=1.0)
ENGINE = Efficiency(1.3e-3, 0.7, 0.5, 1.4, 2e-5, 0.8)
DRAFTER = Drafting(0.07, 4e-4)
H200 = find_gpu("H200", catalogue())

shapes = st.sampled_from([DENSE, SPARSE])
counts = st.sampled_from([1, 4])
sizes = st.integers(1, 300)
gammas = st.integers(0, 7)
contexts = st.integers(1, 100_000)


def replica(shape: ModelShape, count: int, at_once: bool = False, share: float = 1.0) -> Replica:
    return Replica(
        shape,
        Machine.of(H200, count),
        ENGINE,
        DRAFTER,
        Acceptance(1.0, 1.0),
        at_once=at_once,
        drafted_share=share,
        chunked=True,
    )


@given(shapes, counts, st.integers(1, 20_000), sizes, contexts)
def test_a_pass_takes_what_the_performance_model_says(
    shape: ModelShape, count: int, tokens: int, sequences: int, context: int
) -> None:
    its = replica(shape, count)
    expected = float(forward_seconds(tokens, sequences, context, shape, its.machine, ENGINE))
    amounts = (float(n) for n in (tokens, sequences, sequences * context, tokens * context))
    found = pass_seconds(Cost.of(its), *amounts)
    assert found == pytest.approx(expected, rel=1e-9)


@given(shapes, sizes, gammas, contexts, st.booleans(), st.floats(0.1, 1))
def test_a_step_takes_its_drafts_and_its_verify(
    shape: ModelShape, sequences: int, gamma: int, context: int, at_once: bool, share: float
) -> None:
    its = replica(shape, 1, at_once, share)
    plain = forward_seconds(sequences, sequences, context, shape, its.machine, ENGINE)
    verify = forward_seconds(sequences * (1 + gamma * share), sequences, context, shape, its.machine, ENGINE)
    draft = draft_seconds(min(gamma, 1) if at_once else gamma, plain, DRAFTER)
    found = decode_seconds(Cost.of(its), gamma, float(sequences), float(sequences * context))
    assert found == pytest.approx(float(verify + draft), rel=1e-9)


@given(shapes, st.integers(1, 8000))
def test_a_prompt_alone_takes_what_the_fit_says_of_a_prefill(shape: ModelShape, prompt: int) -> None:
    its = replica(shape, 1)
    expected = ENGINE.prefill * forward_seconds(prompt, 1, prompt / 2, shape, its.machine, ENGINE)
    reading = (float(prompt), 1.0, prompt / 2, prompt**2 / 2)
    assert prefill_seconds(Cost.of(its), reading, (0.0, 0.0, 0.0, 0.0)) == pytest.approx(float(expected))


@given(shapes, st.integers(1, 8000), sizes, contexts)
def test_a_prompt_among_decoding_sequences_adds_no_more_than_alone(
    shape: ModelShape, prompt: int, sequences: int, context: int
) -> None:
    cost = Cost.of(replica(shape, 1))
    reading = (float(prompt), 1.0, prompt / 2, prompt**2 / 2)
    decoding = (float(sequences), float(sequences), float(sequences * context), float(sequences * context))
    nothing = (0.0, 0.0, 0.0, 0.0)
    assert 0 < prefill_seconds(cost, reading, decoding) <= prefill_seconds(cost, reading, nothing) * (1 + 1e-9)


def test_fitted_values_may_have_an_axis_for_points() -> None:
    fields = {name: np.array([getattr(ENGINE, name)]) for name in ENGINE.__dataclass_fields__}
    drawn = replace(replica(DENSE, 1), efficiency=Efficiency(**fields))
    assert Cost.of(drawn) == step_time.Cost.of(replica(DENSE, 1))
