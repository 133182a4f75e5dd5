"""Servers in containers, with a stand-in for the runner: it understands the command line and runs what is inside."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from specbench.backends.base import Container
from specbench.backends.container import in_container
from specbench.backends.explain import explain
from specbench.backends.process import LaunchFailed, run_server

INSIDE = "import time; time.sleep(600)"

# `run` publishes the port and starts the program, `inspect` tells its process, `rm` notes what was removed.
RUNNER = """#!{python}
import http.server, os, subprocess, sys
arguments = sys.argv[1:]
if arguments[0] == "rm":
    open(os.environ["REMOVED"], "a").write(arguments[-1])
    sys.exit(0)
if arguments[0] == "inspect":
    sys.exit(print(open(os.environ["REMOVED"] + ".pid").read()))
assert arguments[0] == "run"
options = dict(zip(arguments, arguments[1:]))
if options["--entrypoint"] != "serve":
    sys.exit("Unable to find image 'missing' locally")
host, outside, inside = options["--publish"].split(":")
assert (host, inside) == ("127.0.0.1", "8000")
inside = subprocess.Popen([sys.executable, "-c", {inside!r}])
if not os.path.exists(os.environ["REMOVED"] + ".pid"):
    open(os.environ["REMOVED"] + ".pid", "w").write(str(inside.pid))
print("container", options["--name"], options["--volume"], flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *a): pass
http.server.HTTPServer((host, int(outside)), Handler).serve_forever()
"""


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Container:
    runner = tmp_path / "bin" / "docker"
    runner.parent.mkdir()
    runner.write_text(RUNNER.format(python=sys.executable, inside=INSIDE))
    runner.chmod(0o755)
    monkeypatch.setenv("PATH", str(runner.parent), prepend=":")
    monkeypatch.setenv("REMOVED", str(tmp_path / "removed"))
    return Container("engine:1")


async def test_a_container_serves_and_is_removed_by_name(container: Container, log: Path, tmp_path: Path) -> None:
    command = in_container(container, ("serve",), env={"A": "1"}, mounts=[tmp_path, tmp_path], gpus=False)
    async with run_server(command, log) as server:
        assert await server.is_healthy()
        name = f"specbench-{server.base_url.rpartition(':')[2]}"
        assert f"container {name} {tmp_path}:{tmp_path}:ro" in log.read_text()
    assert (tmp_path / "removed").read_text() == name


@pytest.mark.parametrize("told", ["0", "", "Error: no such object", "1", str(2**40)])
async def test_processes_that_cannot_be_a_containers_are_nobodys(
    container: Container, log: Path, tmp_path: Path, told: str
) -> None:
    """The runner may stand in a virtual machine or ask another host, where numbers mean other processes."""
    (tmp_path / "removed.pid").write_text(told)
    async with run_server(in_container(container, ("serve",), env={}, mounts=[tmp_path], gpus=False), log) as server:
        assert server.pid is None


async def test_what_is_sampled_is_the_containers_own_process(container: Container, log: Path, tmp_path: Path) -> None:
    command = in_container(container, ("serve",), env={}, mounts=[tmp_path], gpus=False)
    async with run_server(command, log) as server:
        assert server.pid == int((tmp_path / "removed.pid").read_text())
        assert psutil.Process(server.pid).cmdline()[-1] == INSIDE


async def test_a_missing_image_is_told_in_words(container: Container, log: Path) -> None:
    command = in_container(replace(container, image="missing"), ("other",), env={}, mounts=[], gpus=False)
    with pytest.raises(LaunchFailed, match="There is no such container image: check --container"):
        async with run_server(command, log, explain=explain):
            pass
