"""The open loop: every request leaves when it is due, however many are in flight, and its clock runs from then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from specbench.errors import SpecbenchError
from specbench.replay.client import StreamingClient
from specbench.replay.conversations import Conversations
from specbench.replay.gathering import gather
from specbench.replay.records import ReplayRun, RequestTrace
from specbench.replay.request import RequestSpec


async def run_open_loop(
    client: StreamingClient,
    requests: Sequence[RequestSpec],
    offsets: Sequence[float],
    on_progress: Callable[[RequestTrace], None] | None = None,
) -> ReplayRun:
    """Send request i `offsets[i]` seconds after the start; the run ends when the last answer has.

    Nothing waits for anything: a server that is too slow gets a queue, and every request in it counts the time it
    waited, because its clock starts when it was due and not when the client got round to sending it (a client that
    waits for answers first, or counts from sending, omits just the waits that users have: coordinated omission). Only
    a later turn of a conversation waits: it is due when it was, or when the turn before is answered if that is later.
    Cancelling the call cancels what is in flight. Raises SpecbenchError unless there is one offset per request.
    """
    if len(requests) != len(offsets) or not requests:
        raise SpecbenchError(f"an open loop needs a time for each request; got {len(requests)} and {len(offsets)}.")
    traces: dict[int, RequestTrace] = {}
    conversations = Conversations(requests)
    started = time.perf_counter()

    async def send(place: int, request: RequestSpec, due: float) -> None:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        traces[place] = await conversations.send(client, request, due)
        if on_progress is not None:
            on_progress(traces[place])

    senders = [
        send(place, request, started + offset)
        for place, (request, offset) in enumerate(zip(requests, offsets, strict=True))
    ]
    return await gather(senders, traces, started)
