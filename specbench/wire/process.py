"""What every server process of ours does: say where it listens, stop on a signal, and not outlive its parent."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys

from aiohttp import web


async def serve_until_stopped(runner: web.AppRunner, host: str, port: int) -> None:
    """Bind a runner that is set up, print its address, and return on SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    await web.TCPSite(runner, host, port).start()
    bound_host, bound_port = runner.addresses[0][:2]
    print(f"listening on http://{bound_host}:{bound_port}", flush=True)
    await stop.wait()


def die_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies, even by SIGKILL. Linux only; elsewhere its cleanup must do.

    The parent says who it is (SPECBENCH_PARENT): it may die during a server's imports, which can take seconds.
    """
    if sys.platform != "linux":
        return
    parent, pr_set_pdeathsig = os.environ.get("SPECBENCH_PARENT", str(os.getppid())), 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
    if str(os.getppid()) != parent:
        sys.exit("the parent process has gone.")
