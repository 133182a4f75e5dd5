"""vLLM 0.32: token ids and per-request metrics in the stream, counters by engine rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web
from prometheus_client.metrics_core import Metric

from specbench.simulated.formats.base import EngineFormat, Json
from specbench.simulated.formats.prometheus import counter, exposition, gauge, histogram
from specbench.simulated.request import Running
from specbench.simulated.tally import RankTally
from specbench.wire.responses import Answer


class VllmFormat(EngineFormat):
    version = "0.32.0"

    def closing(self, asked: Mapping[str, Any], answer: Answer, running: Running) -> list[Json]:
        return [answer.usage_chunk(self._request_metrics(running))] if answer.ends_with_usage else []

    def whole(self, whole: Json, asked: Mapping[str, Any], running: Running) -> Json:
        metrics = self._request_metrics(running)
        return whole if metrics is None else {**whole, "metrics": metrics}

    def metrics(self) -> web.Response:
        engine = self.engine
        families = [
            self._counter("generation_tokens", lambda rank: rank.generated),
            self._counter("prompt_tokens", lambda rank: rank.prompt),
            self._counter("num_preemptions", lambda rank: 0),
            histogram(
                "vllm:time_to_first_token_seconds",
                [(self._labels(i), r.first_tokens, r.first_token_seconds) for i, r in enumerate(engine.tally.ranks)],
            ),
            gauge("vllm:num_requests_running", [(self._labels(0), engine.running)]),
            gauge("vllm:num_requests_waiting", [(self._labels(0), engine.waiting)]),
        ]
        if engine.prefix_caching:
            families += [
                self._counter("prefix_cache_queries", lambda rank: rank.cache_queries),
                self._counter("prefix_cache_hits", lambda rank: rank.cache_hits),
            ]
        if engine.gamma:
            families += [
                self._counter("spec_decode_num_drafts", lambda rank: rank.drafts),
                self._counter("spec_decode_num_draft_tokens", lambda rank: rank.drafted),
                self._counter("spec_decode_num_accepted_tokens", lambda rank: rank.accepted),
                counter(
                    "vllm:spec_decode_num_accepted_tokens_per_pos",
                    [
                        ({**self._labels(i), "position": str(k)}, count)
                        for i, rank in enumerate(engine.tally.ranks)
                        for k, count in enumerate(rank.positions)
                    ],
                ),
            ]
        return exposition(families)

    def server_info(self) -> Json:
        engine = self.engine
        speculative = {"method": engine.method, "num_speculative_tokens": engine.gamma} if engine.gamma else None
        return {
            "vllm_config": {
                "speculative_config": speculative,
                "scheduler_config": {"max_num_seqs": engine.max_batch_size},
                "model_config": {"max_model_len": engine.max_model_len},
                "cache_config": {
                    "enable_prefix_caching": engine.prefix_caching,
                    "kv_cache_size_tokens": engine.scenario.kv_capacity_tokens,
                },
            }
        }

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/reset_prefix_cache", self._reset_prefix_cache)]

    async def _reset_prefix_cache(self, request: web.Request) -> web.Response:
        self.engine.reset_prefix_cache()
        return web.Response()

    def _labels(self, rank: int) -> dict[str, str]:
        return {"engine": str(rank), "model_name": self.model_name}

    def _counter(self, name: str, value: Callable[[RankTally], int]) -> Metric:
        ranks = self.engine.tally.ranks
        return counter(f"vllm:{name}", [(self._labels(i), value(rank)) for i, rank in enumerate(ranks)])

    def _request_metrics(self, running: Running) -> Json | None:
        """Steps without a draft are not among them, and the lists are left out where nothing was drafted."""
        gamma = self.engine.gamma
        if not gamma:
            return None
        steps = [(drafted, accepted) for drafted, accepted in running.steps if drafted]
        drafted, accepted = (sum(column) for column in zip(*steps, strict=True)) if steps else (0, 0)
        report: Json = {
            "mean_acceptance_length": 1 + accepted / len(steps) if steps else None,
            "draft_acceptance_rate": accepted / drafted if drafted else None,
            "num_spec_steps": len(steps),
            "num_draft_tokens": drafted,
            "num_accepted_draft_tokens": accepted,
            "num_spec_tokens": gamma,
        }
        if steps:
            report["acceptance_histogram"] = [sum(a == k for _, a in steps) for k in range(gamma + 1)]
            report["per_step_drafted"] = [d for d, _ in steps]
            report["per_step_accepted"] = [a for _, a in steps]
        return {"speculative_decoding": report}
