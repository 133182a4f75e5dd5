"""Servers of a few answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer


class Fake:
    """Starts servers that know a few paths alone. asked: every path that was asked for"""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.servers: list[TestServer] = []

    async def __call__(self, answers: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> str:
        """The new server's address; GET and POST alike.

        answers: by path a status, a text, the bytes of a 500, or what becomes JSON
        """

        async def answer(request: web.Request) -> web.Response:
            self.asked.append(request.path)
            match answers.get(request.path, 404):
                case int(status):
                    return web.Response(status=status, text=f"status {status}", headers=headers)
                case bytes(body):
                    return web.Response(status=500, body=body, content_type="text/plain", charset="utf-8")
                case str(text):
                    return web.Response(text=text, headers=headers)
                case body:
                    return web.json_response(body)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        server = TestServer(app)
        await server.start_server()
        self.servers.append(server)
        return str(server.make_url("")).rstrip("/")


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    starter = Fake()
    yield starter
    for server in starter.servers:
        await server.close()
