"""The engine as the service behind the HTTP server: text in and out, one running generation per request."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from tokenizers import Tokenizer

from specbench.decoder.metrics import exposition
from specbench.decoder.request import Logprob, Request, RequestFailed, StepOutput
from specbench.decoder.sampling import SamplingParams
from specbench.decoder.text import TextStream
from specbench.decoder.worker import Worker
from specbench.wire.service import Delta, GenerationRequest, RequestError, TokenLogprob

_LONG_TEXT = 1 << 14
"""Characters that take milliseconds to tokenize: more of them in a thread, so that the streams of others go on."""

_TEMPLATE_DATA = {"tools", "documents"}
"""Arguments of a tokenizer's `apply_chat_template` that it passes on to the template."""


class DecoderService:
    """A target with its drafter, served. Make it inside the event loop that serves it.

    tokenizer: a Hugging Face fast tokenizer with the target's chat template
    settings:  what /server_info adds to the engine's own figures
    """

    def __init__(self, worker: Worker, tokenizer: Any, model_name: str, settings: Mapping[str, Any]) -> None:
        self.model_name = model_name
        self._engine = worker.engine
        self._tokenizer = tokenizer
        self._settings = dict(settings)
        self._worker = worker
        self._ids = map(str, itertools.count())

    async def submit(self, request: GenerationRequest) -> RunningGeneration:
        prompt_ids = await self._prompt_ids(request)
        room = self._engine.max_model_len - len(prompt_ids)
        max_tokens = room if request.max_tokens is None else request.max_tokens
        try:
            self._engine.check_prompt(prompt_ids)
            params = SamplingParams(
                temperature=request.temperature,
                top_k=request.top_k,
                top_p=request.top_p,
                seed=secrets.randbits(63) if request.seed is None else request.seed,
                max_tokens=max_tokens,
                ignore_eos=request.ignore_eos,
                stop_token_ids=request.stop_token_ids,
                logprobs=request.logprobs,
            )
        except ValueError as error:
            raise RequestError(str(error)) from error
        if max_tokens > room:
            raise RequestError(
                f"the prompt has {len(prompt_ids)} tokens and max_tokens is {max_tokens}: together more than the "
                f"{self._engine.max_model_len} that this server allows (max_model_len).",
                param="max_tokens",
            )
        return RunningGeneration(
            Request(next(self._ids), prompt_ids, params),
            request.stop,
            self._tokenizer.backend_tokenizer,
            self._engine.gamma,
            self._worker,
        )

    def health(self) -> str | None:
        failure = self._worker.failure
        return None if failure is None else f"the engine has failed: {type(failure).__name__}: {failure}"

    def prometheus(self) -> str:
        return exposition(self._engine)

    def server_info(self) -> Mapping[str, Any]:
        engine = self._engine
        return {
            **self._settings,
            "gamma": engine.gamma,
            "policy": None if engine.policy is None else str(engine.policy),
            "verification": engine.verification,
            "logprobs_mode": engine.logprobs_mode,
            "acceptance": None if engine.acceptance is None else str(engine.acceptance),
            "max_batch_size": engine.max_batch_size,
            "max_model_len": engine.max_model_len,
            "kv_capacity_tokens": engine.kv_capacity,
            "kv_bytes_per_token": engine.cache.bytes_per_token,
            "drafter_kv_bytes_per_token": engine.drafter.kv_bytes_per_token,
            "weights_bytes": engine.target.weights_bytes,
            "drafter_weights_bytes": engine.drafter.weights_bytes,
        }

    def stop(self) -> None:
        self._worker.stop()

    async def _prompt_ids(self, request: GenerationRequest) -> tuple[int, ...]:
        if isinstance(request.prompt, tuple):
            return request.prompt
        if request.prompt is not None:
            return await self._encode(request.prompt)
        return await self._encode(self._chat(request), add_special_tokens=False)  # the template writes them

    async def _encode(self, text: str, **options: bool) -> tuple[int, ...]:
        if len(text) > _LONG_TEXT:
            return tuple(await asyncio.to_thread(self._tokenizer.encode, text, **options))
        return tuple(self._tokenizer.encode(text, **options))

    def _chat(self, request: GenerationRequest) -> str:
        """The messages through the model's own template: a request gives it data, and no say in how it is applied."""
        render, data = self._tokenizer.apply_chat_template, request.chat_template_kwargs
        named = [p.name for p in inspect.signature(render).parameters.values() if p.kind is not p.VAR_KEYWORD]
        if refused := [name for name in named if name in data and name not in _TEMPLATE_DATA]:
            raise RequestError(
                f"chat_template_kwargs may not set {', '.join(refused)}: the model's own template is applied as it is.",
                param="chat_template_kwargs",
            )
        try:
            text: str = render(list(request.messages or ()), add_generation_prompt=True, tokenize=False, **data)
        except Exception as error:  # a template is a program of the model's: it raises whatever it likes
            raise RequestError(f"the chat template refuses these messages: {error}", param="messages") from error
        return text


class RunningGeneration:
    """One request on its way through the engine.

    Text and counts are made on the engine's thread, step by step, and only then handed to the event loop: what a delta
    says never runs ahead of its tokens.
    """

    def __init__(
        self, request: Request, stop: tuple[str, ...], tokenizer: Tokenizer, gamma: int, worker: Worker
    ) -> None:
        self.prompt_token_ids = tuple(request.prompt_ids)
        self._id, self._gamma, self._worker, self._tokenizer = request.id, gamma, worker, tokenizer
        self._text = TextStream(tokenizer, stop)
        self._drafted: list[int] = []
        self._accepted: list[int] = []
        self._gammas: list[int] = []
        self._arrived: asyncio.Queue[Delta | Exception] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._ended = False
        worker.add(replace(request, stops=self._text.push), self._receive)

    async def __aiter__(self) -> AsyncIterator[Delta]:
        while not self._ended:
            delta = await self._arrived.get()
            if isinstance(delta, Exception):
                self._ended = True
                if isinstance(delta, RequestFailed):
                    raise delta
                raise RuntimeError(f"the engine has failed: {delta}") from delta
            self._ended = delta.finish_reason is not None
            yield delta

    def metrics(self) -> Mapping[str, Any] | None:
        """In vLLM's shape, but steps without a draft count among the steps here (vLLM leaves them out).

        `per_step_gamma` is there under a policy: what it let each step draft.
        """
        if not self._gamma:
            return None
        steps, drafted, accepted = len(self._accepted), sum(self._drafted), sum(self._accepted)
        return {
            "speculative_decoding": {
                "mean_acceptance_length": 1 + accepted / steps if steps else None,
                "draft_acceptance_rate": accepted / drafted if drafted else None,
                "num_spec_steps": steps,
                "num_draft_tokens": drafted,
                "num_accepted_draft_tokens": accepted,
                "num_spec_tokens": self._gamma,
                "acceptance_histogram": [self._accepted.count(k) for k in range(self._gamma + 1)],
                "per_step_drafted": self._drafted,
                "per_step_accepted": self._accepted,
                **({"per_step_gamma": self._gammas} if self._gammas else {}),
            }
        }

    async def close(self) -> None:
        if not self._ended:
            self._ended = True
            self._worker.abort(self._id)

    def _receive(self, output: StepOutput | Exception) -> None:
        delta = output if isinstance(output, Exception) else self._delta(output)
        self._loop.call_soon_threadsafe(self._arrived.put_nowait, delta)

    def _delta(self, output: StepOutput) -> Delta:
        if not output.first:
            self._drafted.append(output.drafted)
            self._accepted.append(output.accepted)
            if output.gamma is not None:
                self._gammas.append(output.gamma)
        return Delta(
            text=self._text.take(final=output.finish_reason is not None),
            token_ids=output.token_ids,
            logprobs=None if output.logprobs is None else tuple(map(self._logprob, output.logprobs)),
            finish_reason=output.finish_reason,
        )

    def _logprob(self, entry: Logprob) -> TokenLogprob:
        top = tuple((token, self._token(token), value) for token, value in entry.top)
        return TokenLogprob(entry.token_id, self._token(entry.token_id), entry.logprob, top)

    def _token(self, token: int) -> str:
        return self._tokenizer.decode([token], skip_special_tokens=False)
