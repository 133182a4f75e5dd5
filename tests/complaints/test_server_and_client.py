"""Complaints of users of other tools, of servers and clients that get in their own way: every test names its thread."""

from __future__ import annotations

import asyncio
import time
from math import inf
from typing import Any

from known_run import codes
from known_sweep import Sweep, questions

from specbench.analysis.marks import VOIDING, client_lag
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.timeline import tpot


class TestServerAndClient:
    """What a server does before it is warm, what it remembers, and a client that is slower than it."""

    async def test_vllm_39790_a_first_request_thirty_times_slower_is_warmed_up_not_measured(
        self, simulated_sweep: Sweep
    ) -> None:
        """1,537 ms against 58 ms in the thread."""
        slow = {"kind": "slow", "request": 0, "seconds": 1.5}
        summary = await simulated_sweep({"faults": [slow], "prefill": {"fixed_ms": 5}, "output": {"tokens": 20}})
        for cell in summary.cells:
            assert (cell.ttft_ms_p99 or inf) < 1_500

    async def test_vllm_52884_and_54227_prompts_served_from_a_warm_prefix_cache_are_marked(
        self, simulated_sweep: Sweep
    ) -> None:
        """The server caches prefixes although it was told not to, and these prompts begin alike."""
        summary = await simulated_sweep(
            {"prefix_caching": True, "prefill": {"per_1k_tokens_ms": 50}}, method=["ngram"], drafter={}
        )
        for cell in summary.cells:
            assert "settings_differ" in codes(cell)
            assert "prefix_cache_hits" in codes(cell)

    async def test_vllm_39963_a_client_at_its_limit_says_so_and_is_no_evidence(self, simulate: Any) -> None:
        """The loop that reads is kept busy, as a client is that tokenizes or logs beside 50,000 tokens of context."""
        server = await simulate({"step": {"weights_ms": 5}}, method="none", gamma=0)

        async def busy() -> None:
            while True:
                await asyncio.sleep(0.005)
                time.sleep(0.03)

        async with server.client() as client:
            hog = asyncio.create_task(busy())
            run = await run_closed_loop(client, questions(4), batch_size=4)
            hog.cancel()
        mark = client_lag(run.client_lag_p99, tpot(run.traces[0]), "none")
        assert mark is not None
        assert mark.code == "client_lag"
        assert mark.code in VOIDING
