"""`specbench sweep` on the real demo target: the whole job, and what happens when it is disturbed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from specbench.store.measurement import Measurement
from specbench.store.run import RunStore

SHORT = ("--method", "ngram", "--gamma", "3", "--batch-size", "1,2", "--max-tokens", "12", "--replicates", "1")


@pytest.mark.usefixtures("demo_target")
class TestSweep:
    def test_measures_checks_and_prices(self, specbench, workload: Path, tmp_path: Path) -> None:
        result = specbench("sweep", "--workload", workload, *SHORT, "--gpu-price", 2, "--output", "run", "--json")
        assert result.returncode == 0, result.stderr
        summary = json.loads(result.stdout)
        cells = {(c["method"], c["batch_size"]): c for c in summary["cells"]}
        assert set(cells) == {("none", 1), ("none", 2), ("ngram", 1), ("ngram", 2)}
        for (method, _), cell in cells.items():
            assert cell["status"] == "ok"
            assert cell["output_tokens_per_s"] > 0
            price = 2 / (cell["output_tokens_per_s"] * 3600) * 1e6
            assert cell["cost_per_million_output_tokens"] == pytest.approx(price, rel=1e-6)
            if method == "ngram":
                assert cell["equivalence"] == "EXACT"
                assert 1 <= cell["mean_acceptance_length"] <= 4
                assert cell["speedup_ci_low"] <= cell["speedup"] <= cell["speedup_ci_high"]
        for name in ("report.md", "report.html", "cells.csv", "requests.parquet", "manifest.json"):
            assert (tmp_path / "run" / name).stat().st_size > 0

    def test_a_sampled_sweep_under_coupled_verification_is_exact(self, specbench, workload: Path) -> None:
        result = specbench(
            "sweep", "--workload", workload, *SHORT, "--temperature", 0.8, "--verification", "coupled", "--json"
        )
        assert result.returncode == 0, result.stderr
        cells = json.loads(result.stdout)["cells"]
        assert {c["equivalence"] for c in cells if c["method"] == "ngram"} == {"EXACT"}

    def test_a_run_that_is_whole_is_not_measured_again(self, specbench, workload: Path, tmp_path: Path) -> None:
        arguments = ("sweep", "--workload", workload, *SHORT, "--batch-size", "1", "--output", "run")
        assert specbench(*arguments).returncode == 0
        before = RunStore.open(tmp_path / "run").measurements()
        again = specbench(*arguments, "--resume")
        assert again.returncode == 0, again.stderr
        assert RunStore.open(tmp_path / "run").measurements() == before
        refused = specbench(*arguments, "--resume", "--max-tokens", 13)
        assert refused.returncode == 1
        assert "config.max_tokens (12 → 13)" in refused.stderr


def servers_of(pid: int) -> list[psutil.Process]:
    return [p for p in psutil.Process(pid).children(recursive=True) if "specbench.decoder.server" in p.cmdline()]


@pytest.fixture
def running(argv, workload: Path, tmp_path: Path, demo_target: Path) -> Iterator[subprocess.Popen[str]]:
    """A sweep in the middle of its work: a server runs and the first cell is on disk."""
    process = subprocess.Popen(
        argv("sweep", "--workload", workload, *SHORT, "--output", "run"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background of a shell ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_for(lambda: any((tmp_path / "run" / "cells").glob("[!.]*.parquet")), process)
    wait_for(lambda: servers_of(process.pid), process)
    yield process
    process.kill()
    process.wait()


def wait_for(condition, process: subprocess.Popen[str], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def deterministic(measurement: Measurement) -> tuple[object, ...]:
    """Everything in a measurement that is not a time, a load or a log."""
    traces = [
        (t.index, t.prompt_id, t.category, t.seed, t.prompt_token_ids, t.token_ids, t.text, t.finish_reason,
         t.prompt_tokens, t.output_tokens, t.acceptance)
        for t in measurement.traces
    ]  # fmt: skip
    acceptance = measurement.counters and measurement.counters.acceptance
    return measurement.id, measurement.cell, measurement.status, traces, acceptance


def test_killed_and_resumed_gives_the_same_run(running, specbench, workload: Path, tmp_path: Path) -> None:
    server = servers_of(running.pid)[0]
    time.sleep(random.uniform(0, 3))
    running.kill()
    running.wait()
    cleaned = specbench("doctor", "--clean")
    assert cleaned.returncode == 0, cleaned.stderr
    server.wait(timeout=5)
    resumed = specbench("sweep", "--resume", "--output", "run", "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    whole = specbench("sweep", "--workload", workload, *SHORT, "--output", "whole", "--quiet")
    assert whole.returncode == 0, whole.stderr
    first, second = (
        sorted(map(deterministic, RunStore.open(tmp_path / name).measurements())) for name in ("run", "whole")
    )
    assert first == second


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_stopping_leaves_no_server_and_takes_under_five_seconds(running, tmp_path: Path, signum: int) -> None:
    servers = servers_of(running.pid)
    begun = time.monotonic()
    os.kill(running.pid, signum)
    _, stderr = running.communicate(timeout=10)
    assert time.monotonic() - begun < 5
    assert running.returncode == 130
    assert "--resume" in stderr
    assert "Traceback" not in stderr
    _, alive = psutil.wait_procs(servers, timeout=1)
    assert not alive


def test_a_server_that_dies_mid_cell_is_one_failed_cell(running, tmp_path: Path) -> None:
    for server in servers_of(running.pid):
        server.kill()
    _, stderr = running.communicate(timeout=300)
    assert running.returncode == 5, stderr
    measurements = RunStore.open(tmp_path / "run").measurements()
    failed = [m for m in measurements if m.status == "failed"]
    assert len(measurements) == 4
    assert len(failed) == 1
    assert "the server ended in mid-measurement" in (failed[0].error or "")
