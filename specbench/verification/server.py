"""A running server as verification uses it: outputs of many requests, and next-token distributions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from specbench.backends.process import run_server
from specbench.equivalence.sampling.observations import Distribution, Tokens
from specbench.errors import SpecbenchError
from specbench.replay.client import StreamingClient
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.logprobs import Continuation, LogprobClient
from specbench.replay.records import RequestTrace
from specbench.replay.request import RequestSpec
from specbench.simulated.mark import is_simulated
from specbench.speculation import Speculation
from specbench.store.run import CONTRACT_SERVER
from specbench.sweep.config import SweepConfig
from specbench.verification.settings import Subject

Note = Callable[[str], None]

TELL_SECONDS = 20.0
MOST_FAILED = 0.01
"""Share of the requests of one replay that may fail; more, and what is left is no fair sample."""


_DEATH_S = 0.5
"""So much later than a request's failure the event loop may learn that the server ended."""


@dataclass(frozen=True, slots=True)
class Server:
    """version: the engine's · differences: settings that are not what was asked for · note: gets a sentence now and
    then while many requests are on their way"""

    config: SweepConfig
    version: str
    differences: tuple[str, ...]
    client: StreamingClient
    logprobs: LogprobClient
    note: Note

    async def replay(self, requests: Sequence[RequestSpec], batch_size: int | None = None) -> tuple[RequestTrace, ...]:
        """Send the requests in their order, a batch in flight. Raises SpecbenchError where too many fail."""
        in_flight = min(batch_size or self.config.batch_size[-1], len(requests))
        if not requests:
            return ()
        told = _told(self.note, len(requests), "outputs")
        traces = (await run_closed_loop(self.client, requests, in_flight, lambda _: told())).traces
        failed = [trace.error for trace in traces if trace.error]
        if len(failed) > MOST_FAILED * len(traces):
            raise SpecbenchError(f"{len(failed)} of {len(traces)} requests failed; the first: {failed[0]}")
        if any(trace.token_ids is None for trace in traces if trace.error is None and trace.output_tokens):
            raise SpecbenchError("the server gives no token ids, and text does not tell outputs apart well enough.")
        return traces

    async def distributions(self, prompts: Iterable[Tokens], **changed: float) -> list[Distribution]:
        """What is sampled from after each of these, a batch in flight. changed: other sampling parameters"""
        limit, wanted = asyncio.Semaphore(self.config.batch_size[-1]), list(prompts)
        told = _told(self.note, len(wanted), "places")

        async def one(prompt: Tokens) -> Distribution:
            async with limit:
                given = await self.logprobs.go_on(prompt, **{**sampling(self.config), **changed})
                told()
                return Distribution.from_logprobs(given.top[0])

        return list(await asyncio.gather(*map(one, wanted)))

    async def sampled(self, prompt: Tokens, max_tokens: int, seed: int) -> Continuation:
        """A draw with the distributions that its tokens came from."""
        return await self.logprobs.go_on(prompt, max_tokens=max_tokens, seed=seed, **sampling(self.config))


def _told(note: Note, count: int, what: str) -> Callable[[], None]:
    """To be called after each of `count`: now and then a sentence on how many are done and how long the rest takes."""
    begun = last = time.monotonic()
    done = 0

    def one_more() -> None:
        nonlocal done, last
        done += 1
        now = time.monotonic()
        if now - last >= TELL_SECONDS and done < count:
            last = now
            note(f"  {done} of {count} {what}, about {(now - begun) / done * (count - done):.0f} s to go")

    return one_more


def sampling(config: SweepConfig) -> dict[str, Any]:
    """The sampling parameters of a request, those at their neutral value left out."""
    given: dict[str, Any] = {"temperature": config.temperature, "top_p": config.top_p}
    return {**given, "top_k": config.top_k} if config.top_k else given


@asynccontextmanager
async def start(subject: Subject, speculation: Speculation, note: Note) -> AsyncIterator[Server]:
    """The engine with this speculation, ready.

    Raises SpecbenchError where it does not start or tell its settings, or ends while it is asked.
    """
    launch, config = subject.launch(speculation), subject.config
    note(f"starting {speculation.label} …")
    async with run_server(
        subject.backend.command(launch),
        subject.directory / "logs" / f"{speculation.label}.log",
        ready_timeout=config.ready_timeout,
        explain=subject.backend.explain,
    ) as server:
        try:
            settings = await subject.backend.read_back(server.base_url, launch)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, KeyError, ValueError) as error:
            raise SpecbenchError(
                f"the server does not tell its settings ({type(error).__name__}: {error}); its log: {server.log}."
            ) from error
        if await is_simulated(server.base_url):
            raise SpecbenchError(f"a {CONTRACT_SERVER} answers: it decodes nothing that could be verified.")
        timeout = aiohttp.ClientTimeout(total=config.request_timeout)
        async with (
            StreamingClient(server.base_url, config.target, timeout=config.request_timeout) as client,
            aiohttp.ClientSession(server.base_url, timeout=timeout) as session,
        ):
            version = f"{settings.engine} {settings.version}"
            ready = Server(config, version, settings.differences, client, LogprobClient(session, config.target), note)
            try:
                yield ready
            except (SpecbenchError, aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
                await asyncio.sleep(_DEATH_S)
                if server.exit_code is None:
                    raise
                raise SpecbenchError(
                    f"the server ended with exit code {server.exit_code} before {speculation.label} was verified; "
                    f"its log: {server.log}."
                ) from error
