"""Complaints of users of other tools, of what engines count as accepted: every test names its thread."""

from __future__ import annotations

from typing import Any

import pytest
from known_run import codes
from known_sweep import Sweep, eagle3, questions

from specbench.analysis.acceptance import from_requests, up_to_the_end
from specbench.backends.simulated import SimulatedBackend
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.request import RequestSpec
from specbench.simulated.truth import counts
from specbench.telemetry.prometheus import scrape


class TestAcceptanceCounters:
    """An engine's own figures, and what must be asked of them."""

    async def test_sglang_34743_all_ranks_are_read_and_no_stale_gauge(self, simulate: Any) -> None:
        """The gauge shows one rank's last window; the counters of all ranks are the truth."""
        server = await simulate({"engine": "sglang", "step": {"weights_ms": 0}, "counters": {"ranks": 4}})
        async with server.client() as client, SimulatedBackend().probe(server.url) as probe:
            run = await run_closed_loop(client, questions(12), batch_size=4)
        true = counts(server.truth().requests, server.gamma)
        gauges = (await scrape(server.url))["sglang:spec_accept_length"]
        assert len(set(gauges.values())) > 1
        assert probe.counters is not None
        assert probe.counters.acceptance is not None
        assert probe.counters.acceptance.steps == true.steps
        pooled = from_requests(run.traces, server.gamma)
        assert pooled is not None
        assert pooled.counts.mean_length() == true.mean_length()

    async def test_sglang_29329_a_reset_of_the_counters_voids_them_and_fails_nothing(
        self, simulated_sweep: Sweep
    ) -> None:
        cell = eagle3(await simulated_sweep({"counters": {"reset_at_request": 14}, "output": {"tokens": 30}}))
        assert "counters_reset" in codes(cell)
        assert cell.acceptance_source == "requests"
        assert 1 < (cell.mean_acceptance_length or 0) < 5
        assert cell.counter_mean_acceptance_length is None

    async def test_vllm_56101_what_lies_behind_the_end_of_sequence_is_not_counted(self, simulate: Any) -> None:
        server = await simulate(
            {
                "drafting": {"acceptance": {"alpha": 0.9}},
                "output": {"tokens": 9},
                "step": {"weights_ms": 0},
                "counters": {"whole_last_step": True},
            }
        )
        async with server.client() as client:
            traces = [await client.generate(spec) for spec in questions(20)]
        truth = server.truth().requests
        told, ours = from_requests(traces, 4), from_requests(map(up_to_the_end, traces), 4)
        assert told is not None
        assert ours is not None
        assert all(trace.finish_reason == "stop" for trace in traces)
        assert told.counts == counts(truth, 4, whole_last_step=True)
        assert ours.counts == counts(truth, 4)
        assert ours.counts.accepted < told.counts.accepted

    async def test_vllm_42508_and_sglang_8228_one_drafter_has_one_acceptance_length_in_every_engine(
        self, simulate: Any
    ) -> None:
        """Whatever an engine's own mean counts: SGLang's has the prefill's token in it, vLLM's what was cut off."""
        lengths, own = {}, {}
        for engine in ("vllm", "sglang"):
            server = await simulate(
                {
                    "engine": engine,
                    "step": {"weights_ms": 0},
                    "output": {"tokens": 15, "sigma": 0.4},
                    "counters": {"whole_last_step": engine == "vllm"},
                }
            )
            async with server.client() as client:
                traces = [await client.generate(spec) for spec in questions(16)]
            pooled = from_requests(map(up_to_the_end, traces), 4)
            assert pooled is not None
            lengths[engine] = pooled.counts.mean_length()
            acceptances = [trace.acceptance for trace in traces if trace.acceptance]
            tokens, steps = sum(trace.output_tokens for trace in traces), sum(a.steps for a in acceptances)
            own[engine] = tokens / steps if engine == "sglang" else 1 + sum(a.accepted for a in acceptances) / steps
        assert lengths["vllm"] == lengths["sglang"]
        assert own["vllm"] != pytest.approx(own["sglang"], rel=0.01)

    async def test_vllm_39359_the_rate_falls_with_gamma_and_alpha_does_not(self, simulate: Any) -> None:
        rates, alphas = [], []
        for gamma in (1, 3, 7):
            server = await simulate(
                {"drafting": {"acceptance": {"alpha": 0.7}}, "step": {"weights_ms": 0}, "output": {"tokens": 100}},
                gamma=gamma,
            )
            async with server.client() as client:
                run = await run_closed_loop(client, questions(40, max_tokens=100), batch_size=8)
            pooled = from_requests(run.traces, gamma)
            assert pooled is not None
            rates.append(pooled.counts.draft_rate() or 0)
            alphas.append(pooled.alpha() or 0)
        assert rates[0] > 1.2 * rates[1] > 1.4 * rates[2]
        assert alphas == pytest.approx([0.7] * 3, abs=0.035)  # 3.5 standard errors of some 2,000 judged tokens

    async def test_sglang_11572_more_accepted_than_drafted_is_called_impossible(self, simulated_sweep: Sweep) -> None:
        scenario = {
            "engine": "sglang",
            "drafting": {"acceptance": {"alpha": 1.0}},
            "counters": {"bonus_as_accepted": True},
        }
        cell = eagle3(await simulated_sweep(scenario))
        assert (cell.draft_acceptance_rate or 0) > 1
        assert "counts_impossible" in codes(cell)
        assert not cell.is_evidence

    def test_specforge_741_a_sampled_request_says_nothing_of_top_k_unless_asked(self) -> None:
        """A default of top_k = 1 would make it greedy, and its acceptance that of greedy decoding."""
        sampled = RequestSpec(0, "p", 8, prompt="x", temperature=0.8).body("model")
        assert (sampled["temperature"], "top_k" in sampled) == (0.8, False)
        assert RequestSpec(0, "p", 8, prompt="x", temperature=0.8, top_k=40).body("model")["top_k"] == 40

    async def test_other_peoples_requests_in_the_counters_are_noticed(self, simulated_sweep: Sweep) -> None:
        """The counters are of the whole server: what nobody here received is someone else's."""
        cell = eagle3(await simulated_sweep({"counters": {"foreign_steps": 0.5}}))
        assert codes(cell) & {"other_traffic", "counters_differ"}
        assert not cell.is_evidence
        assert cell.acceptance_source == "requests"
