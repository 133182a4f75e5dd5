"""The server of a launch, however it comes about."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from specbench.backends.attach.backend import AttachBackend
from specbench.backends.base import Backend, Launch, Server
from specbench.backends.process import run_server


def serve(backend: Backend, launch: Launch, log: Path, *, ready_timeout: float) -> AbstractAsyncContextManager[Server]:
    """Start the launch's server and end it afterwards; or hand over one that already runs, and leave it running.

    Raises LaunchFailed where it does not become ready.
    """
    if isinstance(backend, AttachBackend):
        return backend.attached(launch)
    return run_server(backend.command(launch), log, ready_timeout=ready_timeout, explain=backend.explain)
