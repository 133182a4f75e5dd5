"""Server processes: ready, failed, dead in the middle, and never left behind. Real processes throughout."""

import asyncio
import contextlib
import os
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from specbench.backends import process, servers
from specbench.backends.base import Command
from specbench.backends.process import LaunchFailed, run_server

HEALTHY = """
    import http.server, subprocess, sys
    children = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=own)
                for own in (False, True)]
    print("children", *[c.pid for c in children], flush=True)
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers()
        def log_message(self, *a): pass
    {extra}
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def python(code: str) -> Command:
    return Command((sys.executable, "-u", "-c", textwrap.dedent(code), "{port}"))


def log_in(folder: Path) -> Path:
    (folder / "logs").mkdir()
    return folder / "logs" / "launch.log"


async def tree_of(healthy: Command, log: Path) -> list[psutil.Process]:
    """Start, stop, and return the processes that the server consisted of."""
    async with run_server(healthy, log) as server:
        root = psutil.Process(server.pid)
        tree = [root, *root.children(recursive=True)]
        assert len(tree) == 3
        assert await server.is_healthy()
    return tree


def all_gone(tree: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(tree, timeout=5)
    return not alive


async def test_the_whole_tree_ends_even_children_in_sessions_of_their_own(tmp_path: Path) -> None:
    assert all_gone(await tree_of(python(HEALTHY.format(extra="")), log_in(tmp_path)))


async def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = HEALTHY.format(extra="import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    assert all_gone(await tree_of(python(stubborn), log_in(tmp_path)))


async def test_the_next_start_comes_when_killed_workers_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that a driver holds for a while after SIGKILL still has its memory."""
    looks = iter([True] * 4)
    monkeypatch.setattr(servers, "runs", lambda child: next(looks, False))
    await tree_of(python(HEALTHY.format(extra="")), log_in(tmp_path))
    assert next(looks, None) is None
    monkeypatch.setattr(servers, "runs", lambda child: True)
    monkeypatch.setattr(process, "KILL_WAIT_S", 0.2)
    (tmp_path / "stuck").mkdir()
    await tree_of(python(HEALTHY.format(extra="")), log_in(tmp_path / "stuck"))
    assert "were killed and have not ended" in caplog.text


async def test_the_log_begins_with_the_command_and_keeps_the_output(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    await tree_of(python(HEALTHY.format(extra="")), log)
    lines = log.read_text().splitlines()
    assert lines[0].startswith(f"$ {sys.executable} -u -c")
    assert any(line.startswith("children") for line in lines)


async def test_a_server_that_ends_before_it_is_ready_shows_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed, match="exit code 7") as caught:
        async with run_server(python("import sys; print('no such model'); sys.exit(7)"), log_in(tmp_path)):
            pass
    assert caught.value.log_tail.endswith("no such model")


async def test_a_server_knows_who_started_it(tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed) as caught:
        async with run_server(python("import os; print(os.environ['SPECBENCH_PARENT'])"), log_in(tmp_path)):
            pass
    assert caught.value.log_tail.endswith(f"\n{os.getpid()}")


async def test_a_server_finds_the_tools_beside_its_own_program(tmp_path: Path) -> None:
    (tools := tmp_path / "bin").mkdir()
    (tools / "python").symlink_to(sys.executable)
    (tools / "ninja").symlink_to("/bin/true")
    program = (str(tools / "python"), "-c", "import shutil; print(shutil.which('ninja'))")
    with pytest.raises(LaunchFailed) as caught:
        async with run_server(Command(program), log_in(tmp_path)):
            pass
    assert caught.value.log_tail.endswith(f"\n{tools / 'ninja'}")


async def test_a_server_that_is_never_ready_is_ended_after_the_timeout(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    sleeper = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(LaunchFailed, match=r"not ready after 1 s.*--ready-timeout"):
        async with run_server(python(sleeper), log_in(tmp_path), ready_timeout=1):
            pass
    assert not psutil.pid_exists(int(marker.read_text()))


async def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed, match="cannot start no-such-engine: No such file"):
        async with run_server(Command(("no-such-engine",)), log_in(tmp_path)):
            pass


async def test_cancelling_stops_the_server_within_five_seconds(tmp_path: Path) -> None:
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        async with run_server(python(HEALTHY.format(extra="")), log_in(tmp_path)) as server:
            started.set_result(server.pid)
            await asyncio.sleep(600)

    task = asyncio.create_task(serve())
    tree = psutil.Process(await started).children(recursive=True)
    begun = time.monotonic()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert time.monotonic() - begun < 5
    assert all_gone(tree)
