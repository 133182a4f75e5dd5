"""What users of other tools complain about, each complaint a test that names its thread."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
import yaml

from specbench.analysis.acceptance import from_requests, up_to_the_end
from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.marks import VOIDING, client_lag
from specbench.analysis.summary import RunSummary, summarize
from specbench.backends.simulated import SimulatedBackend
from specbench.decoder import noise
from specbench.decoder.sampling import SamplingParams, Warp, draw, warp
from specbench.decoder.verify import Verified, rejection
from specbench.equivalence.greedy import Margins, noise_floor
from specbench.equivalence.greedy import judge as judge_greedy
from specbench.equivalence.sampling.frequencies import one_sample
from specbench.equivalence.sampling.power import draws_for_tv
from specbench.equivalence.sampling.strata import Stratum, pool
from specbench.errors import SpecbenchError
from specbench.replay.arrivals import Arrival, arrival_offsets
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.lag import INTERVAL, loop_lag
from specbench.replay.open_loop import run_open_loop
from specbench.replay.records import RequestTrace
from specbench.replay.request import RequestSpec
from specbench.replay.timeline import chunk_sizes, e2e, itl, tpot
from specbench.simulated.truth import counts
from specbench.speculation import Speculation
from specbench.sweep.config import SweepConfig
from specbench.sweep.preflight import check_memory
from specbench.sweep.prepare import prepare
from specbench.sweep.progress import Silent
from specbench.sweep.requests import request_order
from specbench.sweep.runner import run_sweep
from specbench.telemetry.prometheus import scrape
from specbench.telemetry.sample import Sample
from specbench.workloads.load import load_workload

sys.path.append(str(Path(__file__).parent / "analysis"))
sys.path.append(str(Path(__file__).parent / "decoder"))
from known_run import NGRAM, measurement, store
from planted import VERIFIERS


class TestDecision:
    """What people cannot decide with figures that are right."""

    def test_vllm_49825_one_table_shows_acceptance_speedup_and_memory_of_every_gamma(self, tmp_path: Path) -> None:
        memory = {2: 6 * 2**30, 4: 7 * 2**30}
        runs = [measurement(replicate=r) for r in range(2)]
        for gamma, size in memory.items():
            telemetry = [Sample(0.5, "gpu0", memory_bytes=size)]
            runs += [
                measurement(Speculation("ngram", gamma), accepted=1, replicate=r, telemetry=telemetry) for r in range(2)
            ]
        rows = {c.gamma: c for c in summarize(store(tmp_path / "run", runs)).cells if c.is_speculative}
        assert {gamma: row.memory_bytes_peak for gamma, row in rows.items()} == memory
        for gamma, row in rows.items():
            assert row.mean_acceptance_length == pytest.approx(2.0)
            assert row.draft_acceptance_rate == pytest.approx(1 / gamma)
            assert row.speedup_ci_low is not None
            assert row.speedup == pytest.approx(0.5 / 0.3, rel=1e-6)

    @pytest.mark.parametrize("thread", ["vllm#32374", "vllm#48627", "vllm#49548"])
    def test_nothing_is_enabled_beyond_the_batch_size_at_which_it_collapses(self, thread: str, tmp_path: Path) -> None:
        """A method that gains at 1 and 8 and halves throughput at 32, where verification no longer comes for free."""
        runs = []
        for batch_size, step in ((1, 0.012), (8, 0.02), (32, 0.08)):
            for r in range(3):
                shape = {"requests": 4 * batch_size, "replicate": r}
                runs.append(measurement(batch_size=batch_size, **shape))
                runs.append(measurement(NGRAM, batch_size, accepted=3, steps=(step * (1 + 0.001 * r),), **shape))
        summary = summarize(store(tmp_path / "run", runs))
        assert (summary.decision.recommendation, summary.decision.up_to_batch_size) == ("ENABLE UP TO BATCH 8", 8)
        (crossing,) = (b.crossing for b in summary.break_even)
        assert crossing.batch_size is not None
        assert 8 < crossing.batch_size < 32

    def test_inference_perf_139_a_million_tokens_cost_what_the_rent_and_the_throughput_say(
        self, tmp_path: Path
    ) -> None:
        """41 tokens in .5 s, two GPUs at 3 an hour."""
        run = [measurement(), measurement(NGRAM, accepted=3)]
        plain, ngram = summarize(store(tmp_path / "run", run, gpu_price=3.0, gpu_count=2)).cells
        assert plain.cost_per_million_output_tokens == pytest.approx(2 * 3.0 / 3600 / (41 / 0.5) * 1e6, rel=1e-6)
        assert ngram.saving_percent == pytest.approx((1 - 0.2 / 0.5) * 100, rel=1e-6)

    def test_sglang_38341_what_does_not_fit_is_refused_before_anything_is_started(self, tmp_path: Path) -> None:
        """A checkpoint larger than the machine's memory; the file is sparse."""
        (tmp_path / "config.json").write_text('{"num_hidden_layers": 32, "torch_dtype": "bfloat16"}')
        with (tmp_path / "model.safetensors").open("wb") as file:
            file.truncate(psutil.virtual_memory().total + 2**30)
        config = SweepConfig(workload=(Path("w.jsonl"),), dtype="bfloat16")
        with pytest.raises(SpecbenchError, match="Quantize them, split them with --tensor-parallel"):
            check_memory(config, config.engine_options(), tmp_path, [], print)


Sweep = Callable[..., Awaitable[RunSummary]]

PREFACE = "Answer in one sentence, say what you do not know, and name a source for what you do know. "


def questions(count: int, max_tokens: int = 60) -> list[RequestSpec]:
    return [RequestSpec(i, f"p{i}", max_tokens, prompt=f"Question number {i}?", seed=i) for i in range(count)]


@pytest.fixture
def simulated_sweep(tmp_path: Path) -> Sweep:
    """A sweep on the known-truth server, baseline and EAGLE-3 with gamma 4: `await simulated_sweep({…scenario…})`."""
    lines = [json.dumps({"id": f"p{i}", "prompt": f"{PREFACE}Question number {i}?"}) for i in range(12)]
    (tmp_path / "chat.jsonl").write_text("\n".join(lines))

    async def run(scenario: dict[str, Any], **config: Any) -> RunSummary:
        (tmp_path / "scenario.yaml").write_text(yaml.safe_dump({"step": {"weights_ms": 4}, **scenario}))
        settings = {
            "workload": [tmp_path / "chat.jsonl"],
            "backend": "simulated",
            "scenario": tmp_path / "scenario.yaml",
            "target": "any/model",
            "method": ["eagle3"],
            "drafter": {"eagle3": "any/head"},
            "batch_size": [2],
            "max_tokens": 40,
            "replicates": 1,
        }
        sweep = prepare(
            SweepConfig.model_validate({**settings, **config}), tmp_path / "run", resume=False, note=lambda text: None
        )
        await run_sweep(sweep, Silent())
        return summarize(sweep.store)

    return run


def eagle3(summary: RunSummary) -> CellSummary:
    (cell,) = (cell for cell in summary.cells if cell.is_speculative)
    assert cell.status == "ok", cell.error
    return cell


def codes(cell: CellSummary) -> set[str]:
    return {mark.code for mark in cell.marks}


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
        documented = (Path(__file__).parents[1] / "docs" / "columns.md").read_text(encoding="utf-8")
        assert "| `itl_ms_p50` | gap between tokens, a chunk's gap spread over its tokens" in documented

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


class TestWorkload:
    """What is sent decides what is accepted."""

    def test_dynamo_12918_no_request_is_kept_from_ending(self, tmp_path: Path) -> None:
        """Beyond its own end a model babbles, and a drafter finds babble easy or hard, as it may be."""
        path = tmp_path / "w.jsonl"
        path.write_text('{"prompt": "Hello"}\n')
        for spec in request_order(load_workload(path), SweepConfig(workload=(path,)), batch_size=4):
            assert not {"ignore_eos", "min_tokens", "min_new_tokens"} & spec.body("model").keys()
        path.write_text('{"prompt": "Go on", "ignore_eos": true}\n')
        with pytest.raises(SpecbenchError, match="ignore_eos"):
            load_workload(path)

    async def test_tokenspeed_1305_loops_do_not_count_as_acceptance(self, simulated_sweep: Sweep) -> None:
        """A prompt without its template sent a model into a two-token loop: 3.93 tokens per step, 1.94 with it."""
        scenario = {
            "drafting": {"acceptance": {"alpha": 0.5}},
            "output": {"tokens": 300, "degenerate": {"share": 0.5, "period": 2, "alpha": 1.0}},
            "step": {"weights_ms": 0},
        }
        cell = eagle3(await simulated_sweep(scenario, max_tokens=60, requests=60))
        assert 0 < cell.degenerate_requests < cell.requests
        assert cell.mean_acceptance_length == pytest.approx(sum(0.5**k for k in range(5)), rel=0.1)
        assert (cell.stream_mean_acceptance_length or 0) > 1.3 * (cell.mean_acceptance_length or 0)

    def test_model_serving_minefield_108_the_arm_that_loops_is_not_the_fastest(self, tmp_path: Path) -> None:
        """Drafting costs more than it gains but where the model loops: those requests make the arm look faster."""
        loops = {i: (1, 2, 3, *[9] * 38) for i in range(1, 8, 2)}
        base = measurement(outputs=loops)
        arm = measurement(NGRAM, accepted=4, steps=(0.08, 0.01), outputs=loops)
        (row,) = (c for c in summarize(store(tmp_path / "run", [base, arm])).cells if c.is_speculative)
        assert (row.speedup_without_degenerate or 0) < 1 < (row.speedup or 0)
        assert "degenerate_gain" in codes(row)
        assert row.saving_percent is None


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


class TestCorrectness:
    """Are outputs unchanged? Greedy differences are told from rounding, and sampled ones from chance."""

    def test_vllm_41758_a_changed_greedy_output_is_found_by_its_token_ids(self) -> None:
        """Text hides it: other ids can spell the same letters, and an output that ends early is a prefix."""
        baseline = [replace(answer(0, (5, 6, 7, 8)), text="abcd"), replace(answer(1, (5, 6)), text="ab")]
        outputs = [replace(answer(0, (5, 9, 8)), text="abcd"), replace(answer(1, (5,)), text="ab")]
        found = judge_greedy("cell", baseline, [outputs], Margins(), seeded=True)
        assert found.verdict == "DIVERGENT"
        assert [(d.index, d.position, d.baseline_token, d.token) for d in found.divergent] == [
            (0, 1, 6, 9),
            (1, 1, 6, None),
        ]

    @pytest.mark.parametrize(("margin", "verdict"), [(0.02, "NEAR_TIE"), (1.5, "DIVERGENT"), (None, "DIVERGENT")])
    def test_vllm_7627_rounding_at_a_tie_is_told_from_a_bug(self, margin: float | None, verdict: str) -> None:
        margins = Margins(epsilon=0.125, by_divergence={("cell", "p0", 1, 9): margin})
        found = judge_greedy("cell", [answer(0, (5, 6))], [[answer(0, (5, 9))]], margins, seeded=True)
        assert found.verdict == verdict

    def test_transformers_39421_the_baseline_is_held_against_itself_first(self) -> None:
        """Whether a greedy output differs by numerics: the plain engine's own differences are the floor."""
        alone = [answer(i, (5, 6, 7)) for i in range(8)]
        together = [answer(i, (5, 6, 7) if i else (5, 6, 8)) for i in range(8)]
        floor = noise_floor([alone, together])
        assert (floor.compared, floor.differing, floor.rate) == (8, 1, 1 / 8)

    def test_vllm_54282_a_residual_drawn_with_the_drafts_noise_is_biased_and_found(self) -> None:
        """The fix's own example: a target of 10, 60 and 30 % came out up to three points off."""
        p = torch.tensor([0.10, 0.60, 0.30])
        q = torch.tensor([0.85, 0.05, 0.10])
        counts = {}
        for name, verifier in (("correct", rejection), ("reused", VERIFIERS["residual reuses the draft's noise"])):
            counts[name] = first_tokens(verifier, p, q, q, rows=20_000)
        found = {name: one_sample(name, [Stratum(c, p.double().numpy())], 1e-4) for name, c in counts.items()}
        assert (found["correct"].p or 0) > 1e-4
        assert (found["reused"].p or 1) < 1e-9
        assert found["reused"].effect is not None
        assert found["reused"].effect.low > 0.005

    def test_transformers_47932_a_draft_verified_by_probabilities_it_was_not_drawn_from_is_found(self) -> None:
        """The draft is drawn after top-k, the ratio takes its raw probabilities: total variation up to 0.31."""
        generator = torch.Generator().manual_seed(0)
        common = torch.randn(500, generator=generator)
        logits = common + 0.3 * torch.randn(2, 1, 500, generator=generator)
        p, q = warp(logits, Warp.stack([SamplingParams(top_k=20)] * 2))[:, 0]
        raw = logits[1, 0].softmax(-1)
        kept = torch.minimum(torch.ones(()), p / raw)
        residual = (p - raw).clamp_min(0)
        emitted = q * kept + (1 - (q * kept).sum()) * residual / residual.sum()
        tv = float((emitted - p).abs().sum() / 2)
        assert 0.1 < tv < 0.31
        n = draws_for_tv(tv, df=19, level=1e-4)
        possible = (p > 0).numpy()
        cells = p.double().numpy()[possible]
        p_values = {}
        for name, said in (("as drawn", q), ("raw", raw)):
            counts = first_tokens(rejection, p, q, said, rows=n)[possible]
            p_values[name] = one_sample(name, [pool(counts, cells / cells.sum())], 1e-4).p or 0
        assert p_values["as drawn"] > 1e-4
        assert p_values["raw"] < 1e-4


def answer(index: int, token_ids: tuple[int, ...]) -> RequestTrace:
    fields: dict[str, Any] = dict.fromkeys(RequestTrace.__dataclass_fields__)
    fields |= {"index": index, "prompt_id": f"p{index}", "token_ids": token_ids, "output_tokens": len(token_ids)}
    return RequestTrace(**fields)


def first_tokens(
    verifier: Callable[..., Verified], p: torch.Tensor, q: torch.Tensor, said: torch.Tensor, rows: int
) -> np.ndarray:
    """[V] counts of the first token of a step whose draft is drawn from q and verified as if from `said`."""
    seeds, positions = torch.arange(rows), torch.arange(2).expand(rows, 2)
    draft = draw(q, noise.exponential(seeds, positions[:, :1], noise.DRAFT, len(p))[:, 0])[:, None]
    verified = verifier(p.expand(rows, 2, -1), said.expand(rows, 1, -1), draft, seeds, positions)
    tokens = draft[:, 0].where(verified.accepted > 0, verified.next_token)
    return np.bincount(tokens.numpy(), minlength=len(p)).astype(float)
