"""Warm-up goes on until a cohort is no faster than the one before, and says so when none is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from specbench.replay.client import StreamingClient
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.records import ReplayRun, RequestTrace
from specbench.replay.request import RequestSpec
from specbench.sweep.warm_up import FASTER, MOST_COHORTS, WarmUp, seconds_per_token, warm_up


def trace(seconds: float, tokens: int = 10, error: str | None = None) -> RequestTrace:
    return RequestTrace(
        index=0, prompt_id="p", category=None, scheduled=0.0, sent=0.0, finished=seconds, chunk_times=(seconds,),
        chunk_tokens=(tokens,), prompt_tokens=3, output_tokens=tokens, prompt_token_ids=None, token_ids=None, text="a",
        finish_reason="length", error=error, seed=None, acceptance=None,
    )  # fmt: skip


def run(*traces: RequestTrace) -> ReplayRun:
    return ReplayRun(traces, 0.0, 1.0, None)


def warmed(cohorts: Sequence[ReplayRun]) -> WarmUp:
    async def cohort(number: int) -> ReplayRun:
        return cohorts[number]

    return asyncio.run(warm_up(cohort))


def test_a_first_request_that_is_slow_costs_a_third_cohort() -> None:
    """vllm#39790: 1537 ms for the first EAGLE-3 request, 58 ms for those after it."""
    found = warmed([run(trace(s)) for s in (1.537, 0.058, 0.058, 9.0)])
    assert (found.cohorts, found.settled) == (3, True)
    assert found.last.traces[0].finished == 0.058


def test_a_server_that_is_warm_already_takes_two_cohorts() -> None:
    found = warmed([run(trace(0.060)), run(trace(0.058))])
    assert (found.cohorts, found.settled) == (2, True)


def test_noise_that_goes_up_is_no_warming_up() -> None:
    assert warmed([run(trace(0.050)), run(trace(0.090))]).settled


def test_a_server_that_gets_faster_all_the_time_never_settles() -> None:
    found = warmed([run(trace(0.8**k)) for k in range(MOST_COHORTS)])
    assert (found.cohorts, found.settled) == (MOST_COHORTS, False)


def test_prompts_that_are_refused_are_passed_over() -> None:
    refused = run(trace(0.001, 0, "the server answered 400: too long"))
    found = warmed([refused, run(trace(0.06)), refused, run(trace(0.06))])
    assert (found.cohorts, found.settled) == (4, True)
    assert not warmed([refused] * MOST_COHORTS).settled


def test_a_server_that_breaks_ends_the_warm_up_for_others_to_judge() -> None:
    broken = run(trace(0.001, 0, "cannot connect"))
    assert warmed([broken]).last is broken


def test_a_cohort_is_known_by_its_median() -> None:
    assert seconds_per_token([trace(1.0), trace(1.2), trace(99.0)]) == pytest.approx(0.12)
    assert seconds_per_token([trace(1.0, 0), trace(1.0, error="no")]) is None


@given(st.lists(st.floats(1e-3, 10), min_size=MOST_COHORTS, max_size=MOST_COHORTS))
def test_it_settles_at_the_first_cohort_that_is_no_faster(seconds: list[float]) -> None:
    found = warmed([run(trace(s)) for s in seconds])
    still = [k for k in range(1, MOST_COHORTS) if seconds[k] / 10 >= FASTER * (seconds[k - 1] / 10)]
    assert found.settled == bool(still)
    assert found.cohorts == (still[0] + 1 if still else MOST_COHORTS)


async def test_a_real_server_with_a_slow_start_is_warm_when_it_counts() -> None:
    """The first request takes half a second, as where kernels compile."""
    served = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal served
        served += 1
        await asyncio.sleep(0.5 if served == 1 else 0.0)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"choices":[{"text":"a","token_ids":[1],"finish_reason":"stop"}]}\n\n')
        return response

    app = web.Application()
    app.router.add_post("/v1/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]

        async def cohort(number: int) -> ReplayRun:
            spec = RequestSpec(index=number, prompt_id="p", max_tokens=1, prompt=(number,))
            async with StreamingClient(f"http://{host}:{port}", "m") as client:
                return await run_closed_loop(client, [spec], 1)

        found = await warm_up(cohort)
    finally:
        await runner.cleanup()
    assert served >= 3
    assert found.last.traces[0].index >= 2
