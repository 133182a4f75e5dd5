"""`specbench recommend`: what it prints, its keys, its exit codes, and a schedule that is really measured."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specbench.cli.main import app
from specbench.errors import SpecbenchError

sys.path[:0] = [str(Path(__file__).parents[1] / "recommend"), str(Path(__file__).parents[1] / "analysis")]

from known_grid import store  # noqa: E402

GRID = {("ngram", 2): {1: 1.3, 4: 1.2, 8: 0.95}, ("ngram", 4): {1: 1.5, 4: 1.1, 8: 0.8}}


def test_one_screen_with_the_command_last(specbench: Any, tmp_path: Path) -> None:
    store(tmp_path / "run", GRID)
    (tmp_path / "seen.csv").write_text("concurrency,share\n1,3\n4,1\n")
    done = specbench("recommend", "run", "--request-rate", "2,500", "--concurrency-histogram", "seen.csv")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Ngram with gamma 4 at batch size 1-2, 2 at 3-6, off from 7 on: 1.4")
    assert lines[-1].startswith("specbench serve --target demo --method ngram --gamma schedule:1=4+3=2+7=0 ")
    assert len(lines) < 50
    text = " ".join(done.stdout.split())
    assert "The sweep's verdict is ENABLE UP TO BATCH 4 with ngram γ4" in text
    assert "Turn off above: batch size 6.9 [" in text
    assert "At 2 requests/s (predicted from the closed loop by Little's law): latency 0.50" in text
    assert "At 500 requests/s: no prediction, 500 requests/s is more than the 16" in text


def test_json_has_the_documented_keys_and_no_other(specbench: Any, tmp_path: Path) -> None:
    store(tmp_path / "run", GRID)
    done = specbench("recommend", "run", "--request-rate", "2", "--mean-concurrency", "1.5", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    page = (Path(__file__).parents[2] / "docs" / "recommend.md").read_text(encoding="utf-8")
    rows = page.split("## Keys of `--json`")[1].splitlines()
    documented = {key for row in rows if row.startswith("| `") for key in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert documented == set(record)
    named = set(re.findall(r"`(\w+)`", page))
    for part in (record["best_by_batch"][0]["contenders"][0], record["memory"], record["at_rates"][0], record["paste"]):
        assert set(part) <= named
    assert record["schedule"] == "1=4+3=2+7=0"
    assert record["at_rates"][0]["plain"]["latency"]["value"] == pytest.approx(0.5, rel=0.01)
    assert record["measured_schedule"] is None


def test_too_little_evidence_is_exit_code_4(specbench: Any, tmp_path: Path) -> None:
    store(tmp_path / "run", {("ngram", 4): {1: 1.2, 4: 1.1}}, noise=0.2)
    done = specbench("recommend", "run", "--measure-schedule")
    assert done.returncode == 4, done.stderr
    assert done.stdout.startswith("Not enough evidence: no arm is shown to gain")
    assert "there is no schedule to measure" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--request-rate", "0"), "--request-rate: expected requests per second above 0; got 0."),
        (("--request-rate", ""), "--request-rate: expected names separated by commas; got ''."),
        (("--mean-concurrency", "-1"), "--mean-concurrency: expected more than 0"),
        (("--mean-concurrency", "2", "--concurrency-histogram", "x.csv"), "say the same: give one of them."),
        (("--concurrency-histogram", "nowhere.csv"), "nowhere.csv: No such file or directory."),
        (("--workload", "code"), "has no workload 'code'. It has: chat."),
        (("--replicates", "3"), "--replicates and --output are for --measure-schedule"),
        (("--open-loop", "run"), "has no pair of arms under requests at a rate"),
    ],
)
def test_a_mistake_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    store(tmp_path / "run", {("ngram", 4): {1: 1.5}}, replicates=1)
    done = CliRunner().invoke(app, ["recommend", "run", *arguments])
    assert isinstance(done.exception, SpecbenchError)
    assert sentence in str(done.exception)


SCENARIO = """
name: toy
drafting: {acceptance: {alpha: 0.8}, per_token_ms: 5}
step: {weights_ms: 60, compute_ms_per_token: 12, overlap: 4}
prefill: {fixed_ms: 20}
output: {tokens: 12, ends: false}
"""


def test_a_schedule_is_measured_beside_its_prediction(specbench: Any, workload: Path, tmp_path: Path) -> None:
    """Simulated; the arms, the settings of the servers and the table are looked at, no time is."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    made = store(
        tmp_path / "run",
        {("ngram", 3): {1: 1.6, 2: 0.7}},
        config={
            "backend": "simulated", "target": "any/model", "scenario": str(tmp_path / "scenario.yaml"),
            "workload": [str(workload)], "gamma": [3], "batch_size": [1, 2], "max_tokens": 12, "gpu_price": None,
        },
        workload=workload.stem,
    )  # fmt: skip
    done = specbench(
        "recommend", made.path, "--measure-schedule", "--replicates", 1, "--output", "measured", "--json", "--quiet"
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)["measured_schedule"]
    assert (record["schedule"], record["fixed_gamma"]) == ("1=3+2=0", 3)
    assert [(c["batch_size"], c["gamma"]) for c in record["checks"]] == [(1, 3), (2, 0)]
    assert record["checks"][0]["predicted"]["value"] == pytest.approx(1.6, rel=0.01)
    launches = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "measured" / "launches").glob("*.json")}
    assert set(launches) == {"none-r0", "ngram-g3-r0", "ngram-g1=3+2=0-r0"}
    assert launches["ngram-g1=3+2=0-r0"]["raw"]["schedule"] == "1=3+2=0"
    assert launches["ngram-g1=3+2=0-r0"]["differences"] == []
    shown = specbench("report", "measured", "--json")
    arms = {(c["method"], c["gamma"], c["schedule"]) for c in json.loads(shown.stdout)["cells"]}
    assert arms == {("none", 0, None), ("ngram", 3, None), ("ngram-schedule", 3, "1=3+2=0")}
    assert "ngram schedule" in specbench("report", "measured").stdout
