"""Complaints of users of other tools, of load that waits for answers: every test names its thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from known_sweep import questions

from specbench.replay.arrivals import Arrival, arrival_offsets
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.open_loop import run_open_loop
from specbench.replay.timeline import e2e


class TestOpenLoop:
    """Requests come whether the server is ready for them or not."""

    async def test_vllm_54101_no_queue_hides_behind_a_client_that_waits(self, simulate: Any) -> None:
        """p99 of 507 ms where users waited 3,330: the client sent no request before another had ended.

        One request at a time is served here, and ten times as many come: the truth is in the server's log.
        """
        server = await simulate(
            {"max_batch_size": 1, "step": {"weights_ms": 3}, "output": {"tokens": 8, "ends": False}},
            method="none",
            gamma=0,
        )
        specs = questions(100, max_tokens=8)
        async with server.client() as client:
            closed = await run_closed_loop(client, specs[:10], batch_size=1)
        service = sum(e2e(t) for t in closed.traces) / len(closed.traces)
        already = len(server.truth().requests)
        offsets = arrival_offsets(Arrival("constant"), len(specs), 10 / service, seed=0)
        async with server.client() as client:
            run = await run_open_loop(client, specs, offsets.tolist())
        ended = {true.seed: true.events[-1].written for true in server.truth().requests[already:]}
        truth = np.percentile([ended[t.seed] - t.scheduled for t in run.traces], 99)
        assert np.percentile([e2e(t) for t in run.traces], 99) == pytest.approx(truth, rel=0.02)
        assert truth > 6 * np.percentile([e2e(t) for t in closed.traces], 99)
