"""A server that runs already, as a sweep uses it: asked, watched, never stopped."""

from __future__ import annotations

import asyncio
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import psutil
from yarl import URL

from specbench.access import Access

if TYPE_CHECKING:
    from specbench.backends.attach.engines import Engine

_FORWARDERS = frozenset(
    {"ssh", "docker-proxy", "kubectl", "rootlessport", "slirp4netns", "pasta", "socat", "nginx", "haproxy", "envoy"}
)
"""Programs that listen here for a server that is elsewhere."""


@dataclass(frozen=True, slots=True)
class AttachedServer:
    """pid: of the process that listens, where that is on this machine and can be seen"""

    base_url: str
    access: Access
    engine: Engine
    pid: int | None = None

    @property
    def exit_code(self) -> None:
        """A process of somebody else has none for us."""
        return

    def log_tail(self) -> str:
        """Its log is not ours to read."""
        return ""

    def said(self) -> str:
        return ""

    async def is_healthy(self) -> bool:
        """Whether it answers. A gateway without the endpoint is fit as long as it is there at all."""
        timeout = aiohttp.ClientTimeout(total=10)
        try:
            async with (
                self.access.session(timeout=timeout) as session,
                session.get(self.base_url + self.engine.health_path, allow_redirects=False) as response,
            ):
                return response.status < 500
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
            return False


def is_local(url: str) -> bool:
    """Whether the URL means this machine by its loopback device."""
    host = URL(url).host or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def listening_pid(url: str) -> int | None:
    """The process that listens at a loopback URL; None where it cannot be seen, or only hands on to a server."""
    if not is_local(url):
        return None
    port = URL(url).port
    try:
        sockets = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        pids = sorted({c.pid for c in sockets if c.pid is not None and c.laddr and c.laddr.port == port})
        root = next((p for p in pids if not any(a.pid in pids for a in psutil.Process(p).parents())), None)
        return root if root is not None and psutil.Process(root).name() not in _FORWARDERS else None
    except psutil.Error:
        return None
