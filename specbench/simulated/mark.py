"""The mark of every known-truth server, by which its figures are told from an engine's, whatever it is launched as."""

from __future__ import annotations

import asyncio

import aiohttp

from specbench.access import DIRECT, Access

HEADER = "X-Specbench-Simulated"
"""On each of its answers; the value is the scenario's name."""

CONTRACT_SERVER = "contract-server"
"""Shown in the place of a backend whose engine did not run: a known-truth server answered under its name."""


async def is_simulated(base_url: str, access: Access = DIRECT) -> bool:
    """Whether a known-truth server answers there. That none answers at all is for others to find out."""
    try:
        async with (
            access.session(base_url, timeout=aiohttp.ClientTimeout(total=30)) as session,
            session.get("/v1/models", allow_redirects=False) as response,
        ):
            return HEADER in response.headers
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
        return False
