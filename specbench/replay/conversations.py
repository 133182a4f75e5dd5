"""Conversations: a turn is sent once the one before it is answered, with all that was said so far."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from specbench.replay.client import StreamingClient
from specbench.replay.dialect import VLLM
from specbench.replay.records import RequestTrace
from specbench.replay.request import RequestSpec
from specbench.replay.transcript import Transcript

_Answered = asyncio.Future[tuple[RequestSpec, RequestTrace]]


class Conversations:
    """What was said so far in each conversation of one loop.

    requests: all that the loop will send; a turn whose predecessor is not among them is sent by itself
    """

    def __init__(self, requests: Iterable[RequestSpec]) -> None:
        requests, loop = tuple(requests), asyncio.get_running_loop()
        followed = {request.follows for request in requests}
        self._answers: dict[int | None, _Answered] = {
            request.index: loop.create_future() for request in requests if request.index in followed
        }

    async def send(self, client: StreamingClient, request: RequestSpec, due: float) -> RequestTrace:
        """Send a request when it can be said, and follow its answer.

        A turn is not due before it has something to reply to: nobody asks on while the answer is being written. One
        whose predecessor failed is not sent, and failed too.
        """
        if request.follows in self._answers:
            before, answer = await self._answers[request.follows]
            due = max(due, answer.finished)
            if answer.error is not None:
                return self._note(request, _unsent(request, answer, due))
            said = {"role": "assistant", "content": answer.text}
            request = replace(request, messages=(*(before.messages or ()), said, *(request.messages or ())))
        return self._note(request, await client.generate(request, scheduled=due))

    def _note(self, request: RequestSpec, trace: RequestTrace) -> RequestTrace:
        if request.index in self._answers:
            self._answers[request.index].set_result((request, trace))
        return trace


def _unsent(request: RequestSpec, before: RequestTrace, due: float) -> RequestTrace:
    transcript = Transcript(VLLM)  # of an answer that never began, in whatever dialect
    transcript.fail(f"not sent, as the turn before it failed: {before.error}")
    return transcript.trace(request, scheduled=due, sent=due, finished=due)
