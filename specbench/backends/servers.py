"""Records of launched servers, so that one that outlived a killed run is found, named and ended.

A record is `<cache>/servers/<host>/<pid>.json`: by host, since a home directory is often shared between machines.
Processes are known by pid and creation time, because pids are used again.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile

import psutil

from specbench.cache import cache_dir
from specbench.errors import SpecbenchError
from specbench.store.atomic import replacing

logger = logging.getLogger(__name__)

REMOVE_SECONDS = 60.0
"""How long a container's removal may take."""

TERM_SECONDS = 5.0
"""How long a process group has to end by itself after SIGTERM."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, told from a later one with the same pid by its creation time (seconds since the epoch)."""

    pid: int
    create_time: float

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """The running process `pid`. Raises psutil.NoSuchProcess."""
        return cls(pid, psutil.Process(pid).create_time())

    def process(self) -> psutil.Process | None:
        """The process if it still runs (a zombie does not), else None."""
        try:
            process = psutil.Process(self.pid)
            # Two processes never share a pid within a second; the clock's corrections do move create_time a little.
            same = abs(process.create_time() - self.create_time) < 1
            return process if same and runs(process) else None
        except psutil.NoSuchProcess:
            return None


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """A server that specbench launched as the leader of a process group of its own.

    started_by: the specbench process that shall end it
    run_dir:    directory of the run it was started for, None outside of a run
    """

    pid: int
    pgid: int
    create_time: float
    started_by: ProcessIdentity
    command: tuple[str, ...]
    run_dir: str | None

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.create_time)

    @property
    def is_stale(self) -> bool:
        """The server runs, and whoever should end it is gone."""
        return self.identity.process() is not None and self.started_by.process() is None


def register(pid: int, command: Sequence[str], run_dir: Path | None = None) -> ServerRecord:
    """Record that this process started the server `pid`, and forget those that ended. Call it right after the start.

    Raises ValueError when `pid` does not lead a process group of its own (`start_new_session=True`): ending the
    group must never reach anything else. Raises psutil.NoSuchProcess when it is gone already.
    """
    if (pgid := os.getpgid(pid)) != pid:
        raise ValueError(f"server {pid} is in process group {pgid}; start it with start_new_session=True")
    record = ServerRecord(
        pid=pid,
        pgid=pgid,
        create_time=ProcessIdentity.of(pid).create_time,
        started_by=ProcessIdentity.of(os.getpid()),
        command=tuple(command),
        run_dir=str(run_dir.absolute()) if run_dir else None,
    )
    file = _file(pid)
    file.parent.mkdir(parents=True, exist_ok=True)
    _forget_ended()  # killed runs leave records, and nobody need ever call `clean`
    with replacing(file) as partial:
        partial.write_text(json.dumps(asdict(record), indent=1), "utf-8")
    return record


def check_registry() -> None:
    """Raise SpecbenchError where `register` could not write: before the first launch, rather than at each."""
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=_folder()) as probe:
            probe.write(bytes(4096))
    except OSError as error:
        raise SpecbenchError(
            f"cannot write to the cache directory {cache_dir()} ({error.strerror}), where servers are recorded. "
            "Make room there or mend its permissions, or set SPECBENCH_CACHE to another directory."
        ) from error


def unregister(pid: int) -> None:
    """Forget a server that was stopped. Nothing happens where there is no record of it."""
    _file(pid).unlink(missing_ok=True)


def stale() -> list[ServerRecord]:
    """Servers of this host that still run although the specbench process that started them is gone."""
    return [record for record in _records() if record.is_stale]


def clean(records: Iterable[ServerRecord]) -> list[ServerRecord]:
    """End the servers and their process groups (SIGTERM, 5 s, SIGKILL); returns those that were ended.

    A record that is not stale when its turn comes is left alone. Records of servers that no longer run are removed.
    """
    ended = [record for record in records if record.is_stale and _end(record)]
    _forget_ended()
    return ended


def _forget_ended() -> None:
    for record in _records():
        if record.identity.process() is None:
            with suppress(OSError):  # another user's, in a cache directory that is shared
                unregister(record.pid)


def _end(record: ServerRecord) -> bool:
    _remove_container(record.command)
    members = _members(record)
    _signal(members, signal.SIGTERM)
    survivors = _wait(members)
    # Looked up again: a worker may have been born meanwhile.
    members = survivors | _members(record)
    _signal(members, signal.SIGKILL)
    if survivors := _wait(members):
        logger.warning("server %d: %s did not end", record.pid, ", ".join(str(p.pid) for p in survivors))
    return not survivors


def _remove_container(command: Sequence[str]) -> None:
    """The container whose runner the command is, if it is one: it outlives the runner."""
    if command[:2] in (("docker", "run"), ("podman", "run")) and "--name" in command:
        name = command[command.index("--name") + 1]
        try:
            subprocess.run([command[0], "rm", "--force", name], capture_output=True, timeout=REMOVE_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            logger.warning("container %s was not removed (%s)", name, error)


def _wait(processes: set[psutil.Process]) -> set[psutil.Process]:
    """Those that still run after TERM_SECONDS. psutil.wait_procs would wait for zombies that nobody reaps."""
    deadline = time.monotonic() + TERM_SECONDS
    while (running := {p for p in processes if runs(p)}) and time.monotonic() < deadline:
        time.sleep(0.05)
    return running


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended; one that nobody has asked for its exit code (a zombie) has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _members(record: ServerRecord) -> set[psutil.Process]:
    """The server's process tree and its group: workers that lost their parent, and those that left the group."""
    members = set()
    if leader := record.identity.process():
        members = {leader, *leader.children(recursive=True)}
    return members | {*of_group(record.pgid)}


def of_group(pgid: int) -> Iterator[psutil.Process]:
    """Those of a process group that have not ended."""
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == pgid and runs(process):
                yield process


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _records() -> Iterator[ServerRecord]:
    for file in sorted(_folder().glob("*.json")):
        try:
            content = json.loads(file.read_text("utf-8"))
            yield ServerRecord(
                **content
                | {"started_by": ProcessIdentity(**content["started_by"]), "command": tuple(content["command"])}
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s is no readable server record (%s); left alone", file, error)


def _folder() -> Path:
    return cache_dir() / "servers" / (platform.node() or "localhost")


def _file(pid: int) -> Path:
    return _folder() / f"{pid}.json"
