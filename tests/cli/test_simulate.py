"""`specbench simulate` as a user meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "reports" / "example"
TRAFFIC = ("--traffic", "0.3 req/s, prompt 200±100, output 40±20", "--duration", "30m")
CATALOGUE = ("--model", "llama-3.1-8b", "--gpu", "H200", "--acceptance", "0.8,0.7")


def test_policies_stand_side_by_side(specbench: Any, tmp_path: Path) -> None:
    done = specbench(
        "simulate", EXAMPLE, "--workload", "chat", *TRAFFIC, "--policy", "none,fixed:4,oracle",
        "--slo", "ttft_p95=2s", "--plot", "day.png",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "# 1 simulated replica, shortest-queue: figure, none, fixed:4, oracle"
    assert re.search(r"^TTFT p95, ms\t[\d.]+ \[[\d.]+, [\d.]+\]\t", done.stdout, re.MULTILINE)
    assert re.search(r"^E2E over the oracle's\t\+[\d.]+%\t[+-][\d.]+%\t\+0.0%$", done.stdout, re.MULTILINE)
    assert lines[-1] == "Plot: day.png"
    assert (tmp_path / "day.png").read_bytes().startswith(b"\x89PNG")


def test_json_and_prometheus_of_a_fleet_by_the_catalogue(specbench: Any, tmp_path: Path) -> None:
    done = specbench(
        "simulate", *CATALOGUE, "--traffic", "100 req/s, prompt 500±200, output 100±50", "--duration", "60s",
        "--replicas", 4, "--policy", "goodput", "--prometheus", "figures.txt", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    told = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")))
    assert set(record) <= told
    (figures,) = record["policies"]
    assert {re.sub(r"^(ttft|tpot|e2e|wait)_ms_(mean|p\d\d)$", "ttft_ms_p95", name) for name in figures} <= told
    assert figures["mean_acceptance_length"] > 1
    assert figures["ttft_ms_p50"]["value"] < figures["ttft_ms_p99"]["value"]
    assert figures["requests_per_s"] == pytest.approx(100, rel=0.1)
    assert any("Nothing was measured" in note for note in record["notes"])
    assert "specbench_simulated_request_latency_seconds_bucket" in (tmp_path / "figures.txt").read_text()


@pytest.mark.parametrize(
    ("rate", "duration", "said"),
    [
        ("1000", "60s", "the fleet falls behind: 1"),
        ("0.001", "1s", "Nothing came: no request arrives in so short a time"),
    ],
)
def test_a_queue_that_grows_and_a_time_without_requests_are_said(
    rate: str, duration: str, said: str, specbench: Any
) -> None:
    traffic = f"{rate} req/s, prompt 500±200, output 100±50"
    done = specbench("simulate", *CATALOGUE, "--traffic", traffic, "--duration", duration, "--max-batch-size", 8)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    steady = specbench("simulate", *CATALOGUE, "--traffic", "2 req/s, prompt 500±200, output 100±50")
    assert "falls behind" not in steady.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((EXAMPLE, "--workload", "chat", "--traffic", "much"), "much"),
        (("--model", "llama-3.1-8b", *TRAFFIC), "give a RUN to simulate from, or both --model and --gpu"),
        ((EXAMPLE, "--gpu", "H200", *TRAFFIC), "--gpu is for a fleet without a RUN"),
        ((*CATALOGUE, *TRAFFIC, "--policy", "medusa"), "no adaptive rule 'medusa'"),
        ((*CATALOGUE, *TRAFFIC, "--router", "fastest"), "no router 'fastest'"),
        ((*CATALOGUE, *TRAFFIC, "--duration", "long"), "--duration: expected a time such as 500ms, 30s or 10m"),
        ((*CATALOGUE, *TRAFFIC, "--failures", "1h"), "--failures: expected two times, as in 24h,10m"),
        ((*CATALOGUE, *TRAFFIC, "--failures", "1ms,1h"), "--failures: expected a minute or more between them"),
        ((*CATALOGUE, *TRAFFIC, "--kv-tokens", "10"), "a cache of 10 tokens does not hold one block of 16"),
        ((*CATALOGUE, *TRAFFIC, "--policy", "none,oracle", "--prometheus", "x"), "give one with --policy"),
        (
            (*CATALOGUE, "--traffic", "1 req/s", "--duration", "1000h", "--plot", "day.gif"),
            "ends in .png, .svg or .pdf",
        ),
        (("--model", "llama-3.3-70b", "--gpu", "H100", *TRAFFIC), "leave no room for a KV cache"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[object, ...], said: str, specbench: Any) -> None:
    done = specbench("simulate", *arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_spread_without_end_is_refused_and_not_searched_for_ever(specbench: Any) -> None:
    done = specbench("simulate", *CATALOGUE, *TRAFFIC, "--policy", "fixed:3", "--spread", "inf")
    assert done.returncode == 2
    assert "--spread" in done.stderr
