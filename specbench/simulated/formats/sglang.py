"""SGLang 0.5: OpenAI's endpoints with `sglext`, its own /generate, gauges of a window, state by rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web
from prometheus_client.metrics_core import Metric
from pydantic import BaseModel, ConfigDict, Field, model_validator

from specbench.simulated.formats.base import EngineFormat, Json
from specbench.simulated.formats.prometheus import counter, exposition, gauge, histogram
from specbench.simulated.request import Running
from specbench.simulated.tally import RankTally
from specbench.wire.requests import TokenId
from specbench.wire.responses import Answer
from specbench.wire.service import GenerationRequest, RequestError

_STRICT = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class Sampling(BaseModel):
    model_config = _STRICT

    max_new_tokens: int = Field(default=128, ge=1)
    temperature: float = Field(default=1.0, ge=0, le=2)
    sampling_seed: int | None = None
    ignore_eos: bool = False


class GenerateRequest(BaseModel):
    """POST /generate: a text, or the token ids of one."""

    model_config = _STRICT

    text: str | None = None
    input_ids: list[TokenId] | None = None
    sampling_params: Sampling | None = None
    stream: bool = False

    @model_validator(mode="after")
    def _has_a_prompt(self) -> GenerateRequest:
        if not (self.text or self.input_ids):
            raise ValueError("text or input_ids is missing")
        return self

    def generation(self) -> GenerationRequest:
        sampling = self.sampling_params or Sampling()
        return GenerationRequest(
            prompt=self.text or tuple(self.input_ids or ()),
            max_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            seed=sampling.sampling_seed,
            ignore_eos=sampling.ignore_eos,
        )


class SglangFormat(EngineFormat):
    version = "0.5.23"
    health_paths = ("/health", "/health_generate", "/ready")

    def check(self, asked: Mapping[str, Any]) -> None:
        if "messages" in asked and asked.get("stream") and asked.get("return_token_ids"):
            raise RequestError("return_token_ids is not supported with streaming on /v1/chat/completions.")

    def closing(self, asked: Mapping[str, Any], answer: Answer, running: Running) -> list[Json]:
        usage = answer.usage_chunk(None)
        details = self._details(asked, running)
        extension: Json = {} if details is None else {"spec_tokens_details": details}
        if "messages" in asked and asked.get("return_input_ids_in_sglext"):
            extension["input_ids"] = list(running.prompt)
        if "messages" in asked and asked.get("return_output_ids_in_sglext"):
            extension["output_ids"] = [running.token_ids()]
        told = [{**usage, "usage": None, "sglext": extension}] if extension else []
        return [*told, *([usage] if answer.ends_with_usage else [])]

    def whole(self, whole: Json, asked: Mapping[str, Any], running: Running) -> Json:
        details = self._details(asked, running)
        return whole if details is None else {**whole, "sglext": {"spec_tokens_details": details}}

    def metrics(self) -> web.Response:
        engine = self.engine
        families = [
            self._counter("generation_tokens", lambda rank: rank.generated),
            self._counter("prompt_tokens", lambda rank: rank.prompt),
            self._counter("num_requests", lambda rank: rank.requests),
            histogram(
                "sglang:time_to_first_token_seconds",
                [(self._labels(i), r.first_tokens, r.first_token_seconds) for i, r in enumerate(engine.tally.ranks)],
            ),
            self._gauge("num_running_reqs", lambda rank: engine.running),
            self._gauge("num_queue_reqs", lambda rank: engine.waiting),
        ]
        if engine.gamma:
            families += [
                self._counter("spec_verify_calls", lambda rank: rank.steps),
                self._gauge("spec_accept_length", accept_length),
                self._gauge("spec_accept_rate", lambda rank: (accept_length(rank) - 1) / engine.gamma),
                self._gauge("spec_num_steps", lambda rank: engine.gamma),
                self._gauge("spec_num_draft_tokens", lambda rank: engine.gamma + 1),
            ]
        return exposition(families)

    def server_info(self) -> Json:
        engine = self.engine
        speculative: Json = {"speculative_algorithm": None}
        if engine.gamma:
            speculative = {
                "speculative_algorithm": engine.method.upper(),
                "speculative_num_steps": engine.gamma,
                "speculative_eagle_topk": 1,
                "speculative_num_draft_tokens": engine.gamma + 1,
            }
        states = [
            {
                "effective_max_running_requests_per_dp": engine.max_batch_size,
                **({"avg_spec_accept_length": accept_length(rank)} if engine.gamma else {}),
            }
            for rank in engine.tally.ranks
        ]
        return {
            "version": self.version,
            "served_model_name": self.model_name,
            "context_length": engine.max_model_len,
            "max_running_requests": engine.max_batch_size,
            "max_total_num_tokens": engine.scenario.kv_capacity_tokens,
            "disable_radix_cache": not engine.prefix_caching,
            **speculative,
            "internal_states": states,
        }

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/flush_cache", self.flush),
            web.post("/flush_cache", self.flush),
            web.get("/get_server_info", self._info),
        ]

    def meta_info(self, running: Running) -> Json:
        """What /generate says beside the tokens; speculation only once the request has ended."""
        info: Json = {
            "prompt_tokens": len(running.prompt),
            "completion_tokens": running.emitted,
            "finish_reason": None if running.finish_reason is None else {"type": running.finish_reason},
        }
        return info if running.finish_reason is None or not self.engine.gamma else info | self._counts(running)

    async def flush(self, request: web.Request) -> web.Response:
        """Empties the cache and starts acceptance anew; refused while requests run."""
        if self.engine.running or self.engine.waiting:
            return web.Response(status=400, text="Flush cache failed: requests are running.\n")
        self.engine.reset_prefix_cache()
        self.engine.tally.reset()
        return web.Response(text="Cache flushed.\n")

    async def _info(self, request: web.Request) -> web.Response:
        return web.json_response(self.server_info())

    def _details(self, asked: Mapping[str, Any], running: Running) -> Json | None:
        return self._counts(running) if self.engine.gamma and asked.get("return_spec_tokens_details") else None

    def _counts(self, running: Running) -> Json:
        """Drafted is nominal, gamma for each step; the accept length counts the prefill's token too."""
        gamma, steps = self.engine.gamma, len(running.steps)
        accepted = sum(a for _, a in running.steps)
        return {
            "spec_accept_rate": accepted / (steps * gamma) if steps else 0.0,
            "spec_accept_length": running.emitted / steps if steps else 0.0,
            "spec_num_correct_drafts": accepted,
            "spec_num_proposed_drafts": steps * gamma,
            "spec_verify_ct": steps,
            "spec_correct_drafts_histogram": [sum(a == k for _, a in running.steps) for k in range(gamma + 1)],
        }

    def _labels(self, rank: int) -> dict[str, str]:
        return {"dp_rank": str(rank), "model_name": self.model_name}

    def _counter(self, name: str, value: Callable[[RankTally], float]) -> Metric:
        ranks = self.engine.tally.ranks
        return counter(f"sglang:{name}", [(self._labels(i), value(rank)) for i, rank in enumerate(ranks)])

    def _gauge(self, name: str, value: Callable[[RankTally], float]) -> Metric:
        ranks = self.engine.tally.ranks
        return gauge(f"sglang:{name}", [(self._labels(i), value(rank)) for i, rank in enumerate(ranks)])


def accept_length(rank: RankTally) -> float:
    """Of the rank's last full window of steps; 0 before there was one."""
    accepted, steps = rank.shown
    return 1 + accepted / steps if steps else 0.0
