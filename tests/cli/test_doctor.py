from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from specbench.cli.doctor import doctor
from specbench.doctor import Check

app = typer.Typer()
app.command()(doctor)
run = CliRunner().invoke


@pytest.fixture(autouse=True)
def _own_cache(own_cache: Path) -> None: ...


def test_json_has_a_stable_shape():
    result = run(app, ["--json"])
    report = json.loads(result.stdout)
    assert report.keys() == {"ok", "cleaned", "checks"}
    assert report["checks"]["python"] == {
        "state": "ok",
        "text": sys.version.split()[0],
        "value": sys.version.split()[0],
        "remedy": None,
    }
    assert result.exit_code == (0 if report["ok"] else 1)


def test_a_pipe_gets_a_line_per_check_without_a_frame():
    title, *lines = run(app).stdout.splitlines()
    assert title == "# specbench doctor: check, found, what to do"
    assert lines[0].split("\t")[:2] == ["ok", "python"]
    assert all(line.count("\t") == 3 for line in lines)


def test_a_problem_is_exit_code_1(monkeypatch):
    monkeypatch.setattr("specbench.doctor.examine", lambda: [Check("cache_disk", "problem", "full", None, "Free some")])
    result = run(app)
    assert result.exit_code == 1
    assert "PROBLEM\tcache_disk\tfull\tFree some" in result.stdout


def test_clean_ends_a_stale_server_and_says_which():
    server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    script = f"from specbench.backends import servers; servers.register({server.pid}, ['engine', 'serve'])"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert run(app).exit_code == 1
    result = run(app, ["--clean"])
    assert f"Ended server {server.pid}: engine serve" in result.stdout
    assert "ok\tstale_servers\tnone" in result.stdout
    assert server.wait(timeout=60) != 0
