"""The server as a process: quick to start, no torch, gone with its parent, plain about a broken scenario."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SERVER = (sys.executable, "-m", "specbench.simulated.server")


def test_it_imports_nothing_heavy() -> None:
    code = "import sys, specbench.simulated.server; print(*{m.partition('.')[0] for m in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers", "pandas", "matplotlib", "pyarrow"} & set(loaded)


def test_it_says_that_it_is_simulated_and_where_it_listens() -> None:
    with subprocess.Popen([*SERVER, "--method", "ngram", "--gamma", "2"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(2)]
        server.terminate()
    assert lines[0].startswith("SIMULATED: scenario simulated in the format of vllm")
    assert lines[1].startswith("listening on http://127.0.0.1:")
    assert server.returncode == 0


def test_a_broken_scenario_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("enginee: vllm")
    ended = subprocess.run([*SERVER, "--scenario", str(tmp_path / "s.yaml")], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "enginee is not a setting of a scenario" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_it_ends_when_its_parent_had_gone_before_it_could_look() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    env = os.environ | {"SPECBENCH_PARENT": str(gone.pid)}
    ended = subprocess.run([*SERVER, "--die-with-parent"], env=env, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "the parent process has gone" in ended.stderr


def test_specbench_serve_starts_it_with_a_truth_log(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("name: toy")
    argv = (sys.executable, "-m", "specbench", "serve", "--scenario", "s.yaml", "--truth", "t.jsonl", "--port", "0")
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("SIMULATED: scenario toy")
        assert server.stdout.readline().startswith("listening on")
        server.terminate()
    assert (tmp_path / "t.jsonl").exists()
    alone = subprocess.run([*argv[:4], "--truth", "t.jsonl"], cwd=tmp_path, capture_output=True, text=True)
    assert alone.returncode == 1
    assert "add --scenario FILE" in alone.stderr
