"""With real processes: a starter that registers a server and is then killed, as a sweep would be."""

from __future__ import annotations

import errno
import io
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from specbench.backends import servers
from specbench.errors import SpecbenchError

# The server has a worker in its group that does not heed SIGTERM, and one that left the group.
SERVER = """
import subprocess, sys, time
asleep = "import time; time.sleep(600)"
deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); {asleep}"
workers = [
    subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE),
    subprocess.Popen([sys.executable, "-c", asleep], start_new_session=True),
]
workers[0].stdout.readline()
print(*(worker.pid for worker in workers), flush=True)
time.sleep(600)
"""

STARTER = f"""
import subprocess, sys, time
from pathlib import Path
from specbench.backends import servers
command = [sys.executable, "-c", {SERVER!r}]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
workers = server.stdout.readline()
servers.register(server.pid, ["engine", "serve", "--port", "1"], Path("reports/run"))
print(server.pid, workers, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _own_cache(own_cache: Path) -> None: ...


@pytest.fixture
def launch() -> Iterator[Callable[[], tuple[subprocess.Popen[str], list[int]]]]:
    """Start a starter; gives it and the pids of its server and the server's workers. All are dead afterwards."""
    started: list[psutil.Process] = []

    def start() -> tuple[subprocess.Popen[str], list[int]]:
        starter = subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True)
        assert starter.stdout is not None
        pids = [int(pid) for pid in starter.stdout.readline().split()]
        started.extend(psutil.Process(pid) for pid in [starter.pid, *pids])
        return starter, pids

    yield start
    for process in started:
        if runs(process.pid) and process.is_running():
            process.kill()


def runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


@pytest.fixture
def own_server() -> Iterator[subprocess.Popen[bytes]]:
    server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    yield server
    server.kill()
    server.wait()


def test_a_server_is_stale_once_its_starter_was_killed(launch):
    starter, (server, *_) = launch()
    assert servers.stale() == []
    kill(starter)
    (record,) = servers.stale()
    assert (record.pid, record.command, record.started_by.pid) == (
        server,
        ("engine", "serve", "--port", "1"),
        starter.pid,
    )
    assert record.run_dir == str(Path("reports/run").absolute())


def test_cleaning_ends_the_server_its_deaf_worker_and_the_one_that_left_the_group(launch, monkeypatch):
    monkeypatch.setattr(servers, "TERM_SECONDS", 0.5)
    starter, pids = launch()
    kill(starter)
    assert [record.pid for record in servers.clean(servers.stale())] == pids[:1]
    assert not any(map(runs, pids))
    assert servers.stale() == []


@pytest.mark.parametrize("runner", ["docker", "podman"])
def test_cleaning_removes_the_container_that_outlives_its_runner(own_server, tmp_path, monkeypatch, runner):
    program = tmp_path / runner
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    command = [runner, "run", "--rm", "--name", "specbench-4711", "engine:1", "serve"]
    script = f"from specbench.backends import servers; servers.register({own_server.pid}, {command})"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert len(servers.clean(servers.stale())) == 1
    assert (tmp_path / "asked").read_text() == "rm --force specbench-4711\n"
    assert not runs(own_server.pid)


def test_the_server_of_a_running_sweep_is_left_alone(launch, monkeypatch):
    monkeypatch.setattr(servers, "TERM_SECONDS", 0.5)
    (killed, mine), (_, others) = launch(), launch()
    kill(killed)
    servers.clean(servers.stale())
    assert not any(map(runs, mine))
    assert all(map(runs, others))


def test_cleaning_forgets_servers_that_no_longer_run(own_server, own_cache):
    servers.register(own_server.pid, ["engine"])
    own_server.kill()
    own_server.wait()
    servers.clean([])
    assert not list(own_cache.rglob(f"{own_server.pid}.json"))


def test_registering_forgets_servers_that_ended_and_keeps_those_of_others(launch, own_server, own_cache):
    (killed, _), (_, (other, *_)) = launch(), launch()
    (ended,) = [record for record in servers._records() if record.started_by.pid == killed.pid]
    kill(killed)
    psutil.Process(ended.pid).kill()
    psutil.wait_procs([psutil.Process(ended.pid)] if runs(ended.pid) else [], timeout=10)
    servers.register(own_server.pid, ["engine"])
    assert {record.pid for record in servers._records()} == {other, own_server.pid}


def test_a_cache_that_cannot_be_written_is_said_with_the_way_out(own_cache):
    servers.check_registry()
    assert not [file for file in own_cache.rglob("*") if file.is_file()]
    shutil.rmtree(own_cache)
    own_cache.write_text("a file where the directory should be")
    with pytest.raises(SpecbenchError, match=r"cannot write to the cache directory .*cache.*set SPECBENCH_CACHE"):
        servers.check_registry()


def test_a_full_disk_is_said_with_the_way_out(own_cache, monkeypatch):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(servers, "TemporaryFile", lambda dir: Full())
    with pytest.raises(SpecbenchError, match="No space left on device"):
        servers.check_registry()


def test_a_later_process_with_the_same_pid_is_not_touched(own_server):
    record = servers.register(own_server.pid, ["engine"])
    earlier = replace(
        record, create_time=record.create_time - 60, started_by=replace(record.started_by, create_time=0.0)
    )
    assert not earlier.is_stale
    assert servers.clean([earlier]) == []
    assert runs(own_server.pid)


def test_a_record_says_all_that_is_needed_to_find_the_server(own_server, own_cache):
    servers.register(own_server.pid, ["engine", "--port", "1"], Path("/runs/1"))
    file = own_cache / "servers" / platform.node() / f"{own_server.pid}.json"
    me = psutil.Process()
    assert json.loads(file.read_text()) == {
        "pid": own_server.pid,
        "pgid": own_server.pid,
        "create_time": psutil.Process(own_server.pid).create_time(),
        "started_by": {"pid": me.pid, "create_time": me.create_time()},
        "command": ["engine", "--port", "1"],
        "run_dir": "/runs/1",
    }
    servers.unregister(own_server.pid)
    servers.unregister(own_server.pid)
    assert not file.exists()


def test_a_server_in_our_own_process_group_is_refused():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        with pytest.raises(ValueError, match="start_new_session=True"):
            servers.register(child.pid, ["engine"])
        child.kill()


def test_what_is_no_record_is_passed_over(own_cache):
    folder = own_cache / "servers" / platform.node()
    folder.mkdir(parents=True)
    (folder / "1.json").write_text("{")
    (folder / "2.json").write_text('{"pid": 2}')
    assert servers.stale() == []
    assert servers.clean([]) == []


def test_records_of_another_host_that_shares_the_cache_are_not_looked_at(own_server, own_cache, monkeypatch):
    servers.register(own_server.pid, ["engine"])
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    servers.clean(servers.stale())
    assert list(own_cache.rglob(f"{own_server.pid}.json"))
