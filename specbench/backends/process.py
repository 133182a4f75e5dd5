"""A server process: started in a group of its own, waited for, watched, and ended with all its children."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil

from specbench.backends import servers
from specbench.backends.base import Command
from specbench.errors import SpecbenchError

LOG_TAIL_LINES = 20
STOP_GRACE_S = 5.0
_POLL_S = 0.1


class LaunchFailed(SpecbenchError):
    """A server that did not become ready. `log_tail` holds the engine's last lines."""

    def __init__(self, message: str, log_tail: str) -> None:
        super().__init__(message)
        self.log_tail = log_tail


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that answered its health check. Its process tree is `pid` and all descendants."""

    base_url: str
    health_path: str
    log: Path
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.returncode

    def log_tail(self) -> str:
        return log_tail(self.log)

    async def is_healthy(self) -> bool:
        """Whether it runs and says so."""
        return self.exit_code is None and await _answers(self.base_url + self.health_path)


@asynccontextmanager
async def run_server(
    command: Command, log: Path, *, health_path: str = "/health", ready_timeout: float = 600.0
) -> AsyncIterator[ServerProcess]:
    """Start the command and yield once GET `health_path` answers 200; end the whole process group afterwards.

    Output goes to `log` (appended: a relaunch keeps what the first one said). Raises LaunchFailed when the process
    ends or `ready_timeout` seconds pass before it is ready. A kill -9 of this process leaves a record that
    `specbench doctor` finds.
    """
    port = _free_port()
    argv = [part.replace("{port}", str(port)) for part in command.argv]
    for name, content in command.files.items():
        (log.parent / name).write_text(content)
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(argv)}\n".encode())
        output.flush()
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **command.env},
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchFailed(f"cannot start {argv[0]}: {error.strerror}.", log_tail(log)) from error
    with suppress(psutil.NoSuchProcess, ProcessLookupError):  # ended at once: the wait below says why
        servers.register(process.pid, command=argv, run_dir=log.parent.parent)
    server = ServerProcess(f"http://127.0.0.1:{port}", health_path, log, process)
    try:
        await _until_ready(server, ready_timeout)
        yield server
    finally:
        await asyncio.shield(_stop(process))
        servers.unregister(process.pid)


def log_tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of an engine's log, progress bars folded to their last state."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 65536))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line.rsplit("\r", 1)[-1] for line in text.splitlines()[-lines:])


async def _until_ready(server: ServerProcess, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not await _answers(server.base_url + server.health_path):
        if server.exit_code is not None:
            raise LaunchFailed(
                f"the server ended with exit code {server.exit_code} before it was ready; its log: {server.log}.",
                server.log_tail(),
            )
        if time.monotonic() > deadline:
            raise LaunchFailed(
                f"the server was not ready after {timeout:g} s; its log: {server.log}. "
                "Give it longer with --ready-timeout.",
                server.log_tail(),
            )
        await asyncio.sleep(_POLL_S)


async def _answers(url: str) -> bool:
    timeout = aiohttp.ClientTimeout(total=5)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            return response.status == 200
    except (aiohttp.ClientError, asyncio.TimeoutError):
        return False


async def _stop(process: asyncio.subprocess.Process) -> None:
    """SIGTERM to the group, SIGKILL to whatever is left of the tree after the grace time.

    Children that left the group (engines start some in sessions of their own) are found by descent, so the tree is
    read while its root still lives.
    """
    tree = _descendants(process.pid)
    _signal_group(process.pid, signal.SIGTERM)
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(process.wait(), STOP_GRACE_S)
    _signal_group(process.pid, signal.SIGKILL)
    for child in tree:
        with suppress(psutil.NoSuchProcess):  # psutil looks at the creation time, so a reused pid is safe
            child.kill()
    await process.wait()


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _signal_group(pgid: int, signum: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pgid, signum)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
