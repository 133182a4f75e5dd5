"""The closed loop: as many requests in flight as the batch size says, each replaced the moment it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from specbench.errors import SpecbenchError
from specbench.replay.client import StreamingClient
from specbench.replay.conversations import Conversations
from specbench.replay.gathering import gather
from specbench.replay.records import ReplayRun, RequestTrace
from specbench.replay.request import RequestSpec


async def run_closed_loop(
    client: StreamingClient,
    requests: Sequence[RequestSpec],
    batch_size: int,
    on_progress: Callable[[RequestTrace], None] | None = None,
) -> ReplayRun:
    """Send `requests` in their order, exactly `batch_size` in flight until none is left to send.

    A request's clock starts when its slot became free. A later turn of a conversation waits in its slot for the answer
    to the one before, if that is not there yet, and its clock with it: `request_order` keeps the two far apart.
    Cancelling the call cancels what is in flight. Raises SpecbenchError when there are fewer requests than slots.
    """
    if batch_size < 1:
        raise SpecbenchError(f"a batch size is at least 1; got {batch_size}.")
    if len(requests) < batch_size:
        raise SpecbenchError(
            f"{len(requests)} requests cannot keep {batch_size} in flight. Give more prompts, or a smaller batch size."
        )
    traces: dict[int, RequestTrace] = {}
    queue = iter(enumerate(requests))
    conversations = Conversations(requests)
    started = time.perf_counter()

    async def slot() -> None:
        free = started
        for place, request in queue:
            trace = traces[place] = await conversations.send(client, request, free)
            free = trace.finished
            if on_progress is not None:
                on_progress(trace)

    return await gather([slot() for _ in range(batch_size)], traces, started)
