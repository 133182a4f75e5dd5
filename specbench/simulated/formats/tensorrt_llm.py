"""TensorRT-LLM 1.2: refuses unknown fields, tells a mean per request, and drains its iterations when read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from specbench.simulated.formats.base import EngineFormat, Json
from specbench.simulated.request import Running
from specbench.wire.responses import Answer
from specbench.wire.service import RequestError

KNOWN = frozenset(
    {
        *("model", "prompt", "messages", "max_tokens", "max_completion_tokens", "stream", "stream_options"),
        *("temperature", "top_p", "top_k", "seed", "stop", "stop_token_ids", "ignore_eos", "min_tokens", "n", "user"),
        *("logprobs", "top_logprobs", "frequency_penalty", "presence_penalty", "repetition_penalty", "min_p"),
        *("chat_template_kwargs", "add_generation_prompt", "detokenize", "response_format", "tools", "tool_choice"),
    }
)
"""Fields of a request; any other is refused."""


class TensorrtLlmFormat(EngineFormat):
    version = "1.2.1"
    health_paths = ("/health", "/health_generate")

    def check(self, asked: Mapping[str, Any]) -> None:
        if unknown := sorted(set(asked) - KNOWN):
            raise RequestError(f"Extra inputs are not permitted: {', '.join(unknown)}", param=unknown[0])
        if "top_k" in asked and (asked["top_k"] is None or asked["top_k"] < 0):
            raise RequestError("top_k must be >= 0; leave it out", param="top_k")

    def chunk(self, chunk: Json, running: Running) -> Json:
        # The mean is final with the last tokens.
        for choice in chunk["choices"]:
            ended = choice["finish_reason"] is not None
            choice["avg_decoded_tokens_per_iter"] = _decoded_per_iteration(running) if ended else None
        return chunk

    def closing(self, asked: Mapping[str, Any], answer: Answer, running: Running) -> list[Json]:
        return [answer.usage_chunk(None)] if answer.ends_with_usage else []

    def whole(self, whole: Json, asked: Mapping[str, Any], running: Running) -> Json:
        whole["choices"][0]["avg_decoded_tokens_per_iter"] = _decoded_per_iteration(running)
        return whole

    def metrics(self) -> web.Response:
        """The iterations since the last reading: whoever reads them takes them away."""
        return web.json_response(self.drained())

    def drained(self) -> list[Json]:
        iterations = list(self.engine.tally.iterations)
        self.engine.tally.iterations.clear()
        return iterations

    def server_info(self) -> Json:
        """Nothing of its settings: these cannot be asked for."""
        return {"disaggregated_params": {}}


def _decoded_per_iteration(running: Running) -> float:
    """Output tokens over iterations, the prefill among these: its token counts, and so does it."""
    return running.emitted / (1 + len(running.steps))
