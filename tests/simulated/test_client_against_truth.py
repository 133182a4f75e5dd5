"""What our client and our counter reading say, against the log of what the server did."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.acceptance import from_requests
from specbench.backends.simulated import SimulatedBackend
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.lag import INTERVAL, loop_lag
from specbench.replay.records import ReplayRun, RequestTrace
from specbench.replay.request import RequestSpec
from specbench.replay.timeline import arrivals, itl, tpot, ttft
from specbench.replay.window import Window, steady_window, tokens_in
from specbench.simulated.truth import TrueRequest, Truth, counts

ENGINES = ["vllm", "sglang", "tensorrt_llm"]

CHUNKINGS: dict[str, dict[str, Any]] = {
    "a step per event": {},
    "a token per event": {"tokens_per_event": 1},
    "seven per event": {"tokens_per_event": 7},
    "one to sixteen": {"tokens_per_event": "random"},
    "events in pieces": {"tokens_per_event": "random", "bytes": "split"},
    "cut anywhere": {"bytes": "anywhere", "line_end": "crlf"},
    "events joined": {"tokens_per_event": 1, "bytes": "merged"},
    "comments between": {"tokens_per_event": "random", "keep_alive": 0.5, "line_end": "cr"},
}


def requests(count: int, max_tokens: int = 200) -> list[RequestSpec]:
    """Request i has the prompt i and the seed i, so the log knows it again."""
    return [
        RequestSpec(i, f"p{i}", max_tokens, messages=({"role": "user", "content": f"Question {i}?"},), seed=i)
        for i in range(count)
    ]


def truths(run: ReplayRun, truth: Truth) -> list[tuple[RequestTrace, TrueRequest]]:
    """Each trace with what really happened to it."""
    by_seed = truth.by_seed()
    assert all(trace.error is None for trace in run.traces)
    return [(trace, by_seed[trace.index]) for trace in run.traces]


@pytest.mark.parametrize("engine", ENGINES)
async def test_acceptance_of_requests_and_counters_is_the_truth(simulate: Any, engine: str) -> None:
    server = await simulate(
        {
            "engine": engine,
            "drafting": {"acceptance": {"conditional": [0.8, 0.6, 0.5]}, "spread": 0.1},
            "step": {"weights_ms": 1},
            "output": {"tokens": 40, "sigma": 0.5},
            "counters": {"ranks": 2},
        }
    )
    async with server.client() as client, SimulatedBackend().probe(server.url) as probe:
        run = await run_closed_loop(client, requests(24), batch_size=6)
    truth = server.truth()
    assert probe.counters is not None
    counted = probe.counters.acceptance
    for trace, true in truths(run, truth):
        assert trace.acceptance is not None
        assert trace.output_tokens == true.output_tokens
        assert trace.acceptance.steps == len(true.steps)
        steps = true.steps
        if engine == "tensorrt_llm":  # says tokens per iteration alone: all that a step gave beyond one
            assert trace.acceptance.accepted == sum(step.emitted - 1 for step in steps)
            assert trace.acceptance.drafted is None
            continue
        assert trace.acceptance.accepted == sum(step.kept for step in steps)
        assert trace.acceptance.drafted == sum(step.drafted for step in steps)
        if engine == "vllm":
            assert trace.acceptance.per_step_accepted == tuple(step.kept for step in steps)
        else:
            assert trace.acceptance.by_position == counts([true], 4).by_position
    want = counts(truth.requests, 4)
    match engine:
        case "vllm":
            assert counted == want
        case "sglang":  # counts verification passes and tokens, the rest follows
            beyond_one = sum(step.emitted - 1 for request in truth.requests for step in request.steps)
            assert counted == AcceptanceCounts(steps=want.steps, drafted=None, accepted=beyond_one)
        case "tensorrt_llm":
            assert counted == replace(want, by_position=None)


async def test_of_drafts_that_are_not_always_found_all_is_exact_but_steps_that_an_end_cut_short(simulate: Any) -> None:
    """vLLM lists the steps that had a draft. All of them follow from the tokens, one too few where the output's end cut
    off a step's own token.
    """
    server = await simulate(
        {"drafting": {"found": 0.4}, "step": {"weights_ms": 1}, "output": {"tokens": 40, "sigma": 0.5}},
        method="ngram",
    )
    async with server.client() as client, SimulatedBackend().probe(server.url) as probe:
        run = await run_closed_loop(client, requests(24), batch_size=6)
    truth = server.truth()
    want, pooled = counts(truth.requests, 4), from_requests(run.traces, 4)
    assert pooled is not None
    assert probe.counters is not None
    cut = sum(request.steps[-1].emitted == request.steps[-1].kept for request in truth.requests if request.steps)
    assert 0 < cut < 24
    for found in (pooled.counts, probe.counters.acceptance):
        assert found is not None
        assert replace(found, steps=want.steps) == want
        assert want.steps - cut <= found.steps <= want.steps


async def test_tensorrt_llms_iterations_hold_the_steps_without_a_draft(simulate: Any) -> None:
    server = await simulate(
        {"engine": "tensorrt_llm", "drafting": {"found": 0.4}, "step": {"weights_ms": 1}}, method="ngram"
    )
    async with server.client() as client, SimulatedBackend().probe(server.url) as probe:
        await run_closed_loop(client, requests(12), batch_size=4)
    assert probe.counters is not None
    assert probe.counters.acceptance == replace(counts(server.truth().requests, 4), by_position=None)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
async def test_alpha_and_acceptance_length_are_the_scenarios_within_a_percent(simulate: Any, engine: str) -> None:
    alpha, gamma = 0.7, 3
    server = await simulate(
        {
            "engine": engine,
            "drafting": {"acceptance": {"alpha": alpha}},
            "step": {"weights_ms": 0},
            "output": {"tokens": 150},
        },
        gamma=gamma,
        max_batch_size=32,
    )
    async with server.client() as client:
        run = await run_closed_loop(client, requests(160), batch_size=32)
    pooled, truth = from_requests(run.traces, gamma), server.truth()
    assert pooled is not None
    true = counts(truth.requests, gamma)
    assert pooled.counts.mean_length() == pytest.approx(true.mean_length(), rel=1e-12)
    # Tokens per step of full drafts, Leviathan et al. (2023), equation 1.
    assert pooled.counts.mean_length() == pytest.approx((1 - alpha ** (gamma + 1)) / (1 - alpha), rel=0.01)
    assert pooled.alpha() == pytest.approx(alpha, rel=0.01)


@pytest.mark.parametrize("chunking", CHUNKINGS.values(), ids=CHUNKINGS)
async def test_latency_and_throughput_are_the_truth_within_the_clients_clock_error(
    simulate: Any, chunking: dict[str, Any]
) -> None:
    """The clock error of a reading: the delay of the client's event loop, which is probed every INTERVAL, and the time
    that the server spent in the write. Both are measured here, so a busy machine widens what is allowed.
    """
    batch_size = 4
    server = await simulate(
        {
            "step": {"weights_ms": 8, "per_sequence_ms": 0.5},
            "prefill": {"fixed_ms": 20},
            "output": {"tokens": 30, "sigma": 0.3},
            "streaming": chunking,
        }
    )
    async with server.client() as client, loop_lag() as delays:
        run = await run_closed_loop(client, requests(16), batch_size)
    truth = server.truth()
    writes = (event.written - event.time for request in truth.requests for event in request.events)
    error = max(delays) + INTERVAL + max(writes)
    trues = []
    for trace, true in truths(run, truth):
        times = tuple(event.time for event in true.events)
        real = replace(trace, chunk_times=times, chunk_tokens=tuple(event.tokens for event in true.events))
        trues.append(real)
        assert trace.chunk_tokens == real.chunk_tokens
        assert all(0 <= seen - time <= error for seen, time in zip(trace.chunk_times, times, strict=True))
        assert ttft(trace) == pytest.approx(ttft(real), abs=error)
        assert_same_gaps(trace, real, 2 * error)
        if (per_token := tpot(trace)) is not None:
            later = trace.output_tokens - int(arrivals(trace)[1][0])
            assert per_token == pytest.approx((times[-1] - times[0]) / later, abs=2 * error / later)
    window = steady_window(run.traces, batch_size)
    assert window is not None
    assert tokens_in(run.traces, window) == pytest.approx(tokens_in(trues, window), abs=near(trues, window, error))


def assert_same_gaps(trace: RequestTrace, real: RequestTrace, error: float) -> None:
    """Sums of gaps from the first token on: what each rule says of when a token, chunk or arrival came."""
    first = int(arrivals(trace)[1][0])
    token_times = np.repeat(real.chunk_times, real.chunk_tokens) - real.chunk_times[0]
    np.testing.assert_allclose(np.cumsum(itl(trace, "burst")), token_times[first:], atol=error)
    chunk_times = np.array(real.chunk_times) - real.chunk_times[0]
    np.testing.assert_allclose(np.cumsum(itl(trace, "chunk")), chunk_times[1:], atol=error)
    # Spread evenly, a gap's tokens are right together, at the last of them.
    ends = np.cumsum(arrivals(trace)[1])[1:] - first - 1
    np.testing.assert_allclose(np.cumsum(itl(trace, "spread"))[ends], token_times[first:][ends], atol=error)


def near(traces: list[RequestTrace], window: Window, error: float) -> float:
    """Tokens that an error of the clock can move over an edge of the window."""
    moved = 0
    for trace in traces:
        begins = (trace.sent, *trace.chunk_times)
        for begin, end, tokens in zip(begins, trace.chunk_times, trace.chunk_tokens, strict=False):
            moved += tokens * any(begin - error < edge < end + error for edge in (window.start, window.end))
    return moved


async def test_a_single_queue_has_a_truth_for_every_wait(simulate: Any) -> None:
    """One request at a time, each as long as the next: what an open loop's percentiles can be held against."""
    tokens, prefill, step = 5, 0.02, 0.01
    server = await simulate(
        {
            "max_batch_size": 1,
            "step": {"weights_ms": step * 1000},
            "prefill": {"fixed_ms": prefill * 1000},
            "output": {"tokens": tokens},
        },
        method="none",
        gamma=0,
    )
    async with server.client() as client:
        traces = await asyncio.gather(*(client.generate(spec) for spec in requests(8)))
    assert all(trace.error is None for trace in traces)
    served = sorted(server.truth().requests, key=lambda true: true.prefill_start or 0)
    service = prefill + step * (tokens - 1)
    for before, after in pairwise(served):
        assert after.prefill_start == pytest.approx(before.steps[-1].due, abs=1e-9)
        assert after.steps[-1].due - before.steps[-1].due == pytest.approx(service, abs=1e-9)
