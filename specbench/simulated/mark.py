"""The mark of every known-truth server, by which its figures are told from an engine's, whatever it is launched as."""

from __future__ import annotations

import asyncio

import aiohttp

from specbench.access import DIRECT, Access
from specbench.errors import SpecbenchError

HEADER = "X-Specbench-Simulated"
"""On each of its answers; the value is the scenario's name."""


async def is_simulated(base_url: str, access: Access = DIRECT) -> bool:
    """Whether a known-truth server answers there.

    Raises SpecbenchError where that cannot be told: taken for an engine's, its figures would pass for a measurement.
    """
    try:
        async with (
            access.session(base_url, timeout=aiohttp.ClientTimeout(total=30)) as session,
            session.get("/v1/models", allow_redirects=False) as response,
        ):
            return HEADER in response.headers
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
        reason = access.redact(str(error)) or type(error).__name__
        raise SpecbenchError(
            f"{base_url}/v1/models does not answer ({reason}), so whether an engine runs there cannot be told."
        ) from error
