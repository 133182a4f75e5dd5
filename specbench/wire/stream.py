"""The events of a streamed answer, as bytes: what travels, apart from how HTTP carries it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator

from specbench.wire import sse
from specbench.wire.responses import Answer, error_body
from specbench.wire.service import Generation, RequestError

logger = logging.getLogger(__name__)


async def events(answer: Answer, generation: Generation) -> AsyncGenerator[bytes, None]:
    """One encoded event per delta, the usage, [DONE]. A failure becomes an event too: the 200 has long been sent."""
    try:
        async for delta in generation:
            yield sse.event(answer.chunk(delta))
        if answer.ends_with_usage:
            yield sse.event(answer.usage_chunk(generation.metrics()))
    except RequestError as error:
        yield sse.event(error_body(str(error), error.status, error.param))
    except Exception as error:
        logger.exception("a generation failed in mid-stream")
        yield sse.event(error_body(f"{type(error).__name__}: {error}", 500))
    yield sse.DONE
