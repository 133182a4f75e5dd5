"""Complaints of users of other tools, of events taken for tokens: every test names its thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from known_sweep import questions

from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.lag import INTERVAL, loop_lag
from specbench.replay.timeline import chunk_sizes, itl, tpot


class TestChunksAndTokens:
    """Under speculation an event of a stream is no token."""

    async def test_vllm_27485_and_35471_chunks_are_not_taken_for_tokens(self, simulate: Any) -> None:
        """Every event carries what a step made, 5 tokens here: counting events would say a fifth of the speed."""
        server = await simulate({"drafting": {"acceptance": {"alpha": 1.0}}, "step": {"weights_ms": 5}})
        async with server.client() as client:
            trace = await client.generate(questions(1, max_tokens=51)[0])
        assert trace.output_tokens == 51
        assert trace.chunk_tokens == (1, *[5] * 10)
        assert len(itl(trace, "spread")) == 50
        assert len(itl(trace, "chunk")) == 10
        assert tpot(trace) == pytest.approx(float(itl(trace, "chunk").mean()) / 5)
        assert chunk_sizes([trace]) == {1: 1, 5: 10}

    async def test_guidellm_1145_the_three_rules_for_gaps_are_offered_and_agree_in_sum(self, simulate: Any) -> None:
        server = await simulate({"step": {"weights_ms": 5}, "streaming": {"tokens_per_event": "random"}})
        async with server.client() as client:
            trace = await client.generate(questions(1)[0])
        whole = trace.chunk_times[-1] - trace.chunk_times[0]
        gaps = {rule: itl(trace, rule) for rule in ("spread", "chunk", "burst")}
        assert {rule: float(values.sum()) for rule, values in gaps.items()} == pytest.approx(dict.fromkeys(gaps, whole))
        assert len(gaps["spread"]) == len(gaps["burst"]) > len(gaps["chunk"])
        documented = (Path(__file__).parents[2] / "docs" / "columns.md").read_text(encoding="utf-8")
        (row,) = (line for line in documented.splitlines() if line.startswith("| `itl_ms_p50`"))
        assert "gap between tokens, a chunk's gap spread over its tokens" in row

    async def test_llama_benchy_11_one_server_has_one_speed_however_it_cuts_its_stream(self, simulate: Any) -> None:
        """5.51 against 25.16 tokens a second on one run: chunks were counted. Here they differ tenfold, and the time of
        every request is the server's own within the error of the clock (the loop's delay, its probing, the writes).
        """
        chunks, tokens = {}, {}
        for tokens_per_event in (1, 16):
            server = await simulate({"step": {"weights_ms": 4}, "streaming": {"tokens_per_event": tokens_per_event}})
            async with server.client() as client, loop_lag() as delays:
                run = await run_closed_loop(client, questions(4), batch_size=1)
            trues = server.truth().requests
            error = max(delays) + INTERVAL + max(e.written - e.time for true in trues for e in true.events)
            for trace, true in zip(run.traces, trues, strict=True):
                seconds = true.events[-1].time - true.arrived
                assert trace.chunk_times[-1] - trace.sent == pytest.approx(seconds, abs=2 * error)
            chunks[tokens_per_event] = sum(len(trace.chunk_times) for trace in run.traces)
            tokens[tokens_per_event] = [trace.output_tokens for trace in run.traces]
        assert tokens[1] == tokens[16]
        assert chunks[1] > 10 * chunks[16]

    @pytest.mark.parametrize("cut", ["split", "merged", "anywhere"])
    async def test_vllm_51172_and_evalscope_1102_split_and_joined_events_lose_no_token_and_no_latency_is_zero(
        self, simulate: Any, cut: str
    ) -> None:
        server = await simulate({"step": {"weights_ms": 5}, "streaming": {"tokens_per_event": 1, "bytes": cut}})
        async with server.client() as client:
            traces = [await client.generate(spec) for spec in questions(3)]
        for trace, true in zip(traces, server.truth().requests, strict=True):
            assert trace.error is None
            assert sum(trace.chunk_tokens) == true.output_tokens == 60
            assert "�" not in trace.text
            assert (tpot(trace) or 0) > 0
            assert itl(trace, "spread").min() > 0
