"""A server process: started in a group of its own, waited for, watched, and ended with all its children."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import psutil

from specbench.access import DIRECT, Access
from specbench.backends import servers
from specbench.backends.base import Command
from specbench.backends.priority import lower
from specbench.errors import SpecbenchError

logger = logging.getLogger(__name__)

LOG_TAIL_LINES = 20
CAUSE_LINES = 400
"""Lines of a log that are searched for the cause: engines print it first, and pages of tracebacks after it."""

STOP_GRACE_S = 3.0
KILL_WAIT_S = 30.0
"""How long killed processes are waited for: a driver takes its time to free a worker's memory, which the next needs."""

_POLL_S = 0.1
_CLOCK_S = 1.0
"""By how much the times at which two processes began may be wrong against each other."""


class LaunchFailed(SpecbenchError):
    """A server that did not become ready. `log_tail` holds the engine's last lines."""

    def __init__(self, message: str, log_tail: str) -> None:
        super().__init__(message)
        self.log_tail = log_tail


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that answered its health check. Its process tree is `pid` and all descendants.

    pid: of the server itself; None for one in a container whose processes cannot be seen from here
    process: what was started: the server, or the program that runs its container
    begun: where in the log this start begins, bytes
    """

    base_url: str
    ready_path: str
    log: Path
    process: asyncio.subprocess.Process
    pid: int | None
    begun: int = 0

    @property
    def access(self) -> Access:
        return DIRECT

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.returncode

    def log_tail(self) -> str:
        return log_tail(self.log)

    def said(self) -> str:
        """All that it has logged since its start."""
        with self.log.open("rb") as file:
            file.seek(self.begun)
            return file.read().decode(errors="replace")

    async def is_healthy(self) -> bool:
        """Whether it runs and says so."""
        return self.exit_code is None and await _answers(self.base_url + self.ready_path)


@asynccontextmanager
async def run_server(
    command: Command,
    log: Path,
    *,
    ready_timeout: float = 600.0,
    explain: Callable[[str], str | None] = lambda log: None,
) -> AsyncIterator[ServerProcess]:
    """Start the command and yield once its `ready_path` answers 200; end the whole process group afterwards.

    Output goes to `log` (appended: a relaunch keeps what the first one said). Raises LaunchFailed when the process
    ends or `ready_timeout` seconds pass before it is ready, with what `explain` makes of its log. A kill -9 of this
    process leaves a record that `specbench doctor` finds, unless the server ends by itself once it is orphaned: its
    parent's pid is in the variable SPECBENCH_PARENT.
    """
    places = {"{port}": str(_free_port()), "{files}": str(log.parent.absolute())}
    argv = _filled(command.argv, places)
    for name, content in command.files.items():
        (log.parent / name).write_text(content)
    begun = log.stat().st_size if log.exists() else 0
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(argv)}\n".encode())
        output.flush()
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **_path(argv[0]), **command.env, "SPECBENCH_PARENT": str(os.getpid())},
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchFailed(f"cannot start {argv[0]}: {error.strerror}.", log_tail(log)) from error
    server = ServerProcess(f"http://127.0.0.1:{places['{port}']}", command.ready_path, log, process, process.pid, begun)
    try:
        _note_start(process.pid, argv, command.nice, run_dir=log.parent.parent)
        try:
            await _until_ready(server, ready_timeout)
        except LaunchFailed as failure:
            cause = explain(log_tail(log, CAUSE_LINES, begun))
            raise failure if cause is None else LaunchFailed(f"{failure} {cause}", failure.log_tail) from None
        if command.tell_pid:
            server = replace(server, pid=await _contained(_filled(command.tell_pid, places), process.pid))
        yield server
    finally:
        try:
            await asyncio.shield(_stop(process))
        finally:
            servers.unregister(process.pid)
            if command.cleanup:
                await asyncio.shield(_run(_filled(command.cleanup, places)))


def _filled(argv: Sequence[str], places: Mapping[str, str]) -> list[str]:
    """The words with what their placeholders stand for."""
    return [re.sub(r"\{port\}|\{files\}", lambda found: places[found[0]], word) for word in argv]


def _path(program: str) -> dict[str, str]:
    """PATH with the program's own directory first: what pip puts beside an engine's Python, such as the ninja that
    kernels are compiled with at run time, is found there alone.
    """
    if not Path(program).is_absolute():
        return {}
    return {"PATH": os.pathsep.join((str(Path(program).parent), os.environ.get("PATH", os.defpath)))}


def _note_start(pid: int, argv: list[str], nice: int, run_dir: Path) -> None:
    """Lower the server's priority, and record it for `specbench doctor`."""
    try:
        lower(pid, nice)
        servers.register(pid, command=argv, run_dir=run_dir)
    except (psutil.NoSuchProcess, ProcessLookupError):
        pass  # ended at once: the wait for readiness says why
    except OSError as error:
        raise LaunchFailed(f"cannot record the server in the cache directory: {error}.", "") from error


def log_tail(log: Path, lines: int = LOG_TAIL_LINES, start: int = 0) -> str:
    """The last lines of an engine's log from byte `start` on, progress bars folded to their last state."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(start, file.tell() - 65536))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line.rsplit("\r", 1)[-1] for line in text.splitlines()[-lines:])


async def _until_ready(server: ServerProcess, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        ready = await _answers(server.base_url + server.ready_path)
        if server.exit_code is not None:  # asked second: who answers may be another server on the same port
            raise LaunchFailed(
                f"the server ended with exit code {server.exit_code} before it was ready; its log: {server.log}.",
                server.log_tail(),
            )
        if ready:
            return
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
    """SIGTERM to the group, SIGKILL to whatever is left of the tree after the grace time; returns once all have ended.

    Children that left the group (engines start some in sessions of their own) are found by descent, so the tree is
    read while its root still lives.
    """
    tree = {*_descendants(process.pid), *servers.of_group(process.pid)}  # of one that crashed its group is left
    _signal_group(process.pid, signal.SIGTERM)
    try:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_GRACE_S)
    finally:  # a second Ctrl-C ends the wait, not the kill
        _signal_group(process.pid, signal.SIGKILL)
        for child in tree:
            with suppress(psutil.NoSuchProcess):  # psutil looks at the creation time, so a reused pid is safe
                child.kill()
    await process.wait()
    deadline = time.monotonic() + KILL_WAIT_S
    while (left := [child.pid for child in tree if servers.runs(child)]) and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_S)
    if left:
        logger.warning("processes %s of the server were killed and have not ended", ", ".join(map(str, left)))


async def _run(argv: list[str]) -> str:
    """What a short program prints; that it fails is no news (what it removes may be gone)."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    return (await process.communicate())[0].decode(errors="replace")


async def _contained(tell_pid: list[str], runner: int) -> int | None:
    """The first process of a container. None where it is not to be seen here: it may run in a virtual machine or on
    another host, whose process numbers mean somebody else's here, who was there before the runner.
    """
    told = (await _run(tell_pid)).strip()
    if not told.isdigit():
        return None
    try:
        process, started = psutil.Process(int(told)), psutil.Process(runner).create_time()
        return process.pid if process.create_time() >= started - _CLOCK_S else None
    except psutil.Error:
        return None


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
