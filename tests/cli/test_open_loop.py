"""`specbench sweep --request-rate` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

SCENARIO = "step: {weights_ms: 3}\noutput: {tokens: 10, ends: false}\n"


def test_a_sweep_by_rate_and_its_report_under_another_slo(specbench, workload: Path, tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    result = specbench(
        *("sweep", "--backend", "simulated", "--scenario", "scenario.yaml", "--target", "any/model"),
        *("--workload", workload, "--method", "ngram", "--gamma", "3", "--max-tokens", "10", "--replicates", "1"),
        *("--request-rate", "20", "--arrival", "gamma:2", "--requests", "8", "--slo", "e2e_p95=30s"),
        *("--output", "run", "--json", "--quiet"),
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert {(c["method"], c["request_rate"], c["goodput_percent"], c["slo_met"]) for c in found["cells"]} == {
        ("none", 20.0, 100.0, True),
        ("ngram", 20.0, 100.0, True),
    }
    assert found["manifest"]["config"]["arrival"] == "gamma:2"
    report = specbench("report", "run", "--slo", "e2e_p95=1ms")
    assert report.returncode == 0, report.stderr
    assert "0.00 (0%, missed)" in report.stdout
    assert "decides nothing" in " ".join(report.stdout.split())
    assert max(map(len, report.stdout.splitlines())) <= 80
    wrong = specbench("report", "run", "--slo", "e2e_p95=never")
    assert (wrong.returncode, "--slo" in wrong.stderr, "Traceback" in wrong.stderr) == (1, True, False)


def test_a_dry_run_shows_the_requests_of_every_rate(specbench, workload: Path) -> None:
    result = specbench(
        *("sweep", "--workload", workload, "--request-rate", "1,2", "--requests", "50", "--replicates", "1"),
        *("--dry-run", "--json"),
    )
    assert result.returncode == 0, result.stderr
    assert {launch["requests"] for launch in json.loads(result.stdout)["launches"]} == {100}
