"""The streaming client: sends one request, notes when its bytes come back, and never raises for what a server does."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace, TracebackType
from typing import Any

import aiohttp

from specbench.access import DIRECT, Access
from specbench.body import MOST_JSON, read_text
from specbench.errors import SpecbenchError
from specbench.replay.dialect import VLLM, Dialect
from specbench.replay.raw_log import RawEvent, RawLog
from specbench.replay.records import RequestTrace
from specbench.replay.request import RequestSpec
from specbench.replay.transcript import EXCERPT, Transcript, error_message

KEEP_ALIVE = 2.0
"""Seconds until an idle connection is dropped: less than uvicorn's 5, which would close it under the next request."""


class StreamingClient:
    """An async context manager around one HTTP session to one server.

    Times are `time.perf_counter()` at the moment the event loop hands over the bytes; what the loop itself was late
    by is measured apart (`specbench.replay.lag`). TCP_NODELAY is set by asyncio, and connections are not limited.

    timeout: seconds for a whole request;  raw_log: receives every piece of every body that is streamed
    access: how the server is reached; its secrets stand in no trace and no log, even where the server repeats them
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        dialect: Dialect = VLLM,
        timeout: float = 600.0,
        raw_log: RawLog | None = None,
        access: Access = DIRECT,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._model = model
        self._dialect = dialect
        self._timeout = timeout
        self._raw_log = raw_log
        self._access = access

    async def __aenter__(self) -> StreamingClient:
        tracing = aiohttp.TraceConfig()
        tracing.on_request_headers_sent.append(_note_sent)
        self._session = self._access.session(
            connector={
                "limit": 0,
                **({"keepalive_timeout": KEEP_ALIVE} if self._dialect.keep_alive else {"force_close": True}),
            },
            timeout=aiohttp.ClientTimeout(total=self._timeout),
            # A compressed stream would be held back until the compressor has enough to say.
            headers={"Accept": "text/event-stream", "Accept-Encoding": "identity"},
            trace_configs=[tracing],
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._session.close()

    async def generate(self, spec: RequestSpec, scheduled: float | None = None) -> RequestTrace:
        """Send a request and follow its stream to the end. `scheduled` is when it was due; now, by default.

        Whatever goes wrong between here and the server becomes the trace's `error`. Only cancellation is raised.
        """
        moments = SimpleNamespace(sent=time.perf_counter())
        due = moments.sent if scheduled is None else scheduled
        transcript = Transcript(self._dialect, self._access.redact)
        try:
            await self._stream(spec, transcript, moments)
        except SpecbenchError as error:  # an answer without end
            transcript.fail(str(error))
        except asyncio.TimeoutError:
            transcript.fail(f"the server did not finish within {self._timeout:g} s.")
        except aiohttp.ClientConnectorError as error:
            transcript.fail(f"cannot connect to {self._base_url}: {error.os_error.strerror or error.os_error}.")
        except (aiohttp.ClientError, OSError) as error:
            transcript.fail(f"the connection to the server broke: {str(error) or type(error).__name__}.")
        return transcript.trace(spec, scheduled=due, sent=moments.sent, finished=time.perf_counter())

    async def _stream(self, spec: RequestSpec, transcript: Transcript, moments: SimpleNamespace) -> None:
        # What a user asks for in `extra` wins over what the dialect would like.
        body = {**self._dialect.fields(spec.path), **spec.body(self._model)}
        url = self._base_url + spec.path
        # A redirect would carry the headers to somebody else, and be measured with the answer.
        async with self._session.post(url, json=body, trace_request_ctx=moments, allow_redirects=False) as response:
            if response.status != 200:
                answer = self._access.redact(await read_text(response, MOST_JSON))
                retry = response.headers.get("Retry-After")
                after = f" (retry after {retry})" if retry else ""
                transcript.fail(f"the server answered {response.status}{after}: {_reason(answer)}")
            elif response.content_type != "text/event-stream":
                answer = self._access.redact(await read_text(response, MOST_JSON))[:EXCERPT]
                transcript.fail(f"the server answered {response.content_type} instead of a stream: {answer}")
            else:
                await self._follow(response, spec.index, transcript)

    async def _follow(self, response: aiohttp.ClientResponse, index: int, transcript: Transcript) -> None:
        pieces: list[tuple[float, bytes]] = []
        try:
            async for data in response.content.iter_any():
                now = time.perf_counter()
                transcript.feed(data, now)
                if self._raw_log is not None:
                    pieces.append((now, data))
        finally:
            if self._raw_log is not None:  # at the end, since a secret may be cut in two by a read
                rest = self._access.mask(b"".join(data for _, data in pieces))
                for now, data in pieces:
                    self._raw_log.write(RawEvent(index, now, rest[: len(data)]))
                    rest = rest[len(data) :]


async def _note_sent(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceRequestHeadersSentParams
) -> None:
    context.trace_request_ctx.sent = time.perf_counter()


def _reason(body: str) -> str:
    try:
        answer: Any = json.loads(body)
    except ValueError:
        answer = body
    return error_message(answer)
