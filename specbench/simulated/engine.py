"""A scheduler with continuous batching in real time: its passes take as long as the scenario says.

Each pass ends at an absolute deadline, the one before plus its length, so that lateness never adds up. A pass prefills
all requests that were admitted, or decodes one step of all that run.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import deque
from typing import Any

from specbench.schedule import Schedule
from specbench.simulated.drafts import Draft, Drafts
from specbench.simulated.pace import Pace
from specbench.simulated.request import Emission, Running
from specbench.simulated.scenario import Acceptance, Scenario
from specbench.simulated.tally import Tally
from specbench.simulated.tokens import OutputTokens
from specbench.simulated.truth import TruthLog
from specbench.wire.service import GenerationRequest, RequestError

CACHE_BLOCK = 16
"""Prompt tokens that the prefix cache keeps together."""

TENSORRT_LLM_BLOCK = 32
"""Tokens of a block as that engine counts its cache."""


class SimulatedEngine:
    """The engine behind the HTTP server. Make it inside the event loop that serves it, and keep `run` going.

    schedule: gamma by the number of running requests, as `Schedule.parse` reads it; then `gamma` is its largest
    """

    def __init__(
        self,
        scenario: Scenario,
        truth: TruthLog,
        *,
        method: str = "none",
        gamma: int = 0,
        max_batch_size: int = 8,
        max_model_len: int = 2048,
        prefix_caching: bool = False,
        schedule: str | None = None,
    ) -> None:
        self.scenario, self.truth = scenario, truth
        self.schedule = schedule
        self._schedule = Schedule.parse(schedule) if schedule else None
        self.method, self.gamma = method, gamma
        self.max_batch_size = min(max_batch_size, scenario.max_batch_size or max_batch_size)
        self.max_model_len = max_model_len
        self.prefix_caching = prefix_caching or scenario.prefix_caching
        self.tally = Tally(scenario.counters, gamma, truth)
        self.failure: str | None = None
        self._drafting = scenario.drafting_of(method)
        self._pace = Pace(scenario.step, scenario.prefill, self._drafting, random.Random())
        self._started = time.perf_counter()
        self._arrivals = 0
        self._iterations = 0
        self._waiting: deque[Running] = deque()
        self._running: list[Running] = []
        self._cache: set[tuple[int, ...]] = set()
        self._work = asyncio.Event()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def next_number(self) -> int:
        """The place of a request that arrives now."""
        self._arrivals += 1
        if self._arrivals - 1 == self.scenario.counters.reset_at_request:
            self.tally.reset()
        return self._arrivals - 1

    def submit(self, number: int, prompt: tuple[int, ...], text: str, request: GenerationRequest) -> Running:
        """Queue a request. Raises RequestError for one that is too long."""
        room = self.max_model_len - len(prompt)
        if (request.max_tokens or 1) > room:
            raise RequestError(
                f"the prompt has {len(prompt)} tokens and max_tokens is {request.max_tokens or 1}: together more than "
                f"the {self.max_model_len} that this server allows (max_model_len).",
                param="max_tokens",
            )
        now = time.perf_counter()
        category, acceptance = self._category(text)
        output = OutputTokens(prompt, self.scenario.output, request.seed if request.temperature > 0 else None)
        if self.scenario.output.degenerate is not None and output.is_degenerate:
            acceptance = Acceptance(alpha=self.scenario.output.degenerate.alpha)
        # By prompt and seed, not by order: a run that was interrupted and goes on draws the same.
        drafting = f"{self.method}/{self.schedule or self.gamma}"
        source = random.Random(f"{self.scenario.seed}/{drafting}/{prompt}/{request.seed}")
        running = Running(
            number=number,
            rank=number % self.scenario.counters.ranks,
            prompt=prompt,
            text=text,
            max_tokens=room if request.max_tokens is None else request.max_tokens,
            ignore_eos=request.ignore_eos,
            output=output,
            drafts=Drafts(self._drafting, acceptance, self.gamma, source, (number, now - self._started)),
            arrived=now,
        )
        self.truth.write(
            "arrival",
            request=number,
            time=now,
            seed=request.seed,
            category=category,
            prompt_tokens=len(prompt),
            max_tokens=running.max_tokens,
        )
        self._waiting.append(running)
        self._work.set()
        return running

    def withdraw(self, running: Running) -> None:
        """Free the place of a request that nobody waits for any more."""
        if running in self._running:
            self._running.remove(running)
        elif running in self._waiting:
            self._waiting.remove(running)

    def die(self, reason: str) -> None:
        """Fail all requests, now and from now on; the HTTP server lives."""
        self.failure = reason
        for running in (*self._running, *self._waiting):
            running.hand_over(RuntimeError(reason))
        self._running.clear()
        self._waiting.clear()

    def reset_prefix_cache(self) -> None:
        self._cache.clear()

    async def run(self) -> None:
        """Work until cancelled."""
        clock = 0.0
        while True:
            if not self._waiting and not self._running:
                self._work.clear()
                await self._work.wait()
                clock = time.perf_counter()
            admitted = self._admit()
            clock = await (self._prefill(admitted, clock) if admitted else self._decode(clock))

    def _admit(self) -> list[Running]:
        room = self.max_batch_size - len(self._running)
        return [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]

    async def _prefill(self, admitted: list[Running], clock: float) -> float:
        cached = [self._look_up(running) for running in admitted]
        slow = sum(
            fault.seconds
            for running in admitted
            for fault in self.scenario.faults
            if fault.kind == "slow" and fault.strikes(running.number, running.text)
        )
        start = max(clock, *(running.arrived for running in admitted))
        tokens = sum(len(running.prompt) for running in admitted) - sum(cached)
        end = start + self._pace.prefill(tokens) + slow
        self._running += admitted
        await _sleep_until(end)
        for running, hits in zip(admitted, cached, strict=True):
            if running not in self._running:
                continue
            self.truth.write("prefill", request=running.number, start=start, end=end, cached=hits)
            tally = self.tally.ranks[running.rank]
            tally.requests += 1
            tally.prompt += len(running.prompt)
            tally.generated += 1
            tally.first_tokens += 1
            tally.first_token_seconds += end - running.arrived
            self._hand_over(running, running.emit(None))
        self._note_iteration(end - start, context=admitted, steps=[])
        return end

    async def _decode(self, clock: float) -> float:
        batch = list(self._running)
        gamma = self._schedule.at(len(batch)) if self._schedule else self.gamma
        seconds = self._pace.step(len(batch), sum(running.context for running in batch), gamma)
        end = clock + seconds
        await _sleep_until(end)
        steps = []
        for running in batch:
            if running not in self._running:
                continue
            draft = running.drafts.next(gamma)
            emission = running.emit(draft)
            steps.append((draft, emission))
            running.steps.append((draft.drafted, self.tally.counted(draft, len(emission.tokens))))
            self.tally.step(running.rank, draft, len(emission.tokens))
            self.truth.write(
                "step",
                request=running.number,
                time=end,
                drafted=draft.drafted,
                accepted=draft.accepted,
                emitted=len(emission.tokens),
                batch=len(batch),
                seconds=seconds,
            )
            self._hand_over(running, emission)
        self._note_iteration(seconds, context=[], steps=steps)
        return end

    def _hand_over(self, running: Running, emission: Emission) -> None:
        if emission.finish_reason is not None:
            self._running.remove(running)
        running.hand_over(emission)

    def _look_up(self, running: Running) -> int:
        """Prompt tokens found in the prefix cache, in whole blocks and never all; the prompt is in it afterwards."""
        if not self.prefix_caching:
            return 0
        blocks = range(CACHE_BLOCK, len(running.prompt), CACHE_BLOCK)
        hits = max((end for end in blocks if running.prompt[:end] in self._cache), default=0)
        self._cache.update(running.prompt[:end] for end in blocks)
        tally = self.tally.ranks[running.rank]
        tally.cache_queries += len(running.prompt)
        tally.cache_hits += hits
        return hits

    def _category(self, text: str) -> tuple[str | None, Acceptance]:
        for category in self._drafting.by_category:
            if re.search(category.pattern, text):
                return category.pattern, category
        return None, self._drafting.acceptance

    def _note_iteration(self, seconds: float, context: list[Running], steps: list[tuple[Draft, Emission]]) -> None:
        """One entry as TensorRT-LLM's /metrics has it."""
        self._iterations += 1
        with_draft = [(draft, emission) for draft, emission in steps if draft.drafted]
        accepted = sum(self.tally.counted(draft, len(emission.tokens)) for draft, emission in with_draft)
        self.tally.iterations.append(
            {
                "iter": self._iterations,
                "iterLatencyMS": seconds * 1000,
                "numActiveRequests": len(self._running),
                "numQueuedRequests": len(self._waiting),
                "maxBatchSizeRuntime": self.max_batch_size,
                **({} if (capacity := self.scenario.kv_capacity_tokens) is None else self._cache_stats(capacity)),
                "inflightBatchingStats": {
                    "numContextRequests": len(context),
                    "numGenRequests": len(steps),
                    "numCtxTokens": sum(len(running.prompt) for running in context),
                },
                "specDecodingStats": {
                    "numDraftTokens": sum(draft.drafted for draft, _ in with_draft),
                    "numAcceptedTokens": accepted,
                    "numRequestsWithDraftTokens": len(with_draft),
                    "acceptanceLength": (accepted + len(with_draft)) / len(with_draft) if with_draft else 0.0,
                },
            }
        )

    def _cache_stats(self, capacity: int) -> dict[str, Any]:
        used = sum(-(-running.context // TENSORRT_LLM_BLOCK) for running in self._running)
        blocks = {"maxNumBlocks": capacity // TENSORRT_LLM_BLOCK, "usedNumBlocks": used}
        return {"kvCacheStats": {**blocks, "tokensPerBlock": TENSORRT_LLM_BLOCK}}


async def _sleep_until(deadline: float) -> None:
    await asyncio.sleep(max(0.0, deadline - time.perf_counter()))
