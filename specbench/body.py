"""The text of an answer, as much as is sensible: nobody knows what a server sends, or whether it ever ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specbench.errors import SpecbenchError

if TYPE_CHECKING:
    import aiohttp

MOST_JSON = 16 << 20
"""Bytes of an answer about a server; llama.cpp's /slots holds every prompt under way."""

MOST_METRICS = 64 << 20
"""Bytes of a /metrics."""

_CHUNK = 1 << 16


async def read_text(response: aiohttp.ClientResponse, most: int) -> str:
    """The body, with U+FFFD where its encoding has no character. Raises SpecbenchError above `most` bytes."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > most:
            response.close()
            raise SpecbenchError(
                f"{response.url.origin()}{response.url.path} answers with more than {most >> 20} MiB, which no "
                "engine says there. Check the URL."
            )
    try:
        return body.decode(response.charset or "utf-8", errors="replace")
    except LookupError:  # a charset that Python does not know
        return body.decode(errors="replace")
