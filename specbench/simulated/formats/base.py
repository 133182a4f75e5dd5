"""What differs between the engines' servers: the shape of answers, of metrics and of settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from specbench.simulated.engine import SimulatedEngine
from specbench.simulated.request import Running
from specbench.wire.responses import Answer

Json = dict[str, Any]


class EngineFormat(ABC):
    """One engine's way of speaking OpenAI's protocol, from the server's side.

    version: that the contract was read from;  asked, below: a request's body as JSON
    """

    version: str
    health_paths: Sequence[str] = ("/health",)

    def __init__(self, engine: SimulatedEngine, model_name: str) -> None:
        self.engine, self.model_name = engine, model_name

    def check(self, asked: Mapping[str, Any]) -> None:
        """Raise RequestError for a body that this engine refuses; most ignore what they do not know."""
        return

    def chunk(self, chunk: Json, running: Running) -> Json:
        """A streamed event, from the one that `Answer` makes."""
        return chunk

    @abstractmethod
    def closing(self, asked: Mapping[str, Any], answer: Answer, running: Running) -> list[Json]:
        """The events after the last token."""

    @abstractmethod
    def whole(self, whole: Json, asked: Mapping[str, Any], running: Running) -> Json:
        """An answer that is not streamed, from the one that `Answer` makes."""

    @abstractmethod
    def metrics(self) -> web.Response:
        """GET /metrics."""

    @abstractmethod
    def server_info(self) -> Json:
        """GET /server_info, without the part that every simulated server adds."""

    def routes(self) -> list[web.RouteDef]:
        """Endpoints that only this engine has."""
        return []
