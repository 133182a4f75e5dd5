"""`specbench gate` and `specbench baseline` as a user or a CI system runs them."""

from __future__ import annotations

import json
import re
import shlex
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

sys.path += [str(Path(__file__).parents[1] / name) for name in ("analysis", "gate")]
from known_gate import BREEZE, CALM, run

from specbench.cli.main import app
from specbench.sweep.config_file import load_config

CI = Path(__file__).parents[2] / "configs" / "ci"


@pytest.fixture
def runs(tmp_path: Path) -> None:
    """`before`, `same`, `slow` (its steps 10 % longer), `short` (two replicates) and `elsewhere` (another machine)."""
    run(tmp_path / "before", noise=CALM)
    run(tmp_path / "same", noise=BREEZE)
    run(tmp_path / "slow", noise=BREEZE, slower=1.1, versions={"torch": "9.9"})
    run(tmp_path / "short", noise=BREEZE[:2])
    run(tmp_path / "elsewhere", noise=BREEZE, hardware={"kind": "1 × H200"})


@pytest.mark.usefixtures("runs")
class TestStoredRuns:
    def test_runs_that_do_not_differ_pass(self, specbench: Any) -> None:
        done = specbench("gate", "--baseline", "before", "--candidate", "same")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("PASS. Of 4 comparisons 0 failed, 0 undecided")

    def test_a_slowdown_of_ten_percent_fails_with_files_for_ci(self, specbench: Any, tmp_path: Path) -> None:
        files = ("--junit", "gate.xml", "--markdown", "gate.md")
        done = specbench("gate", "--baseline", "before", "--candidate", "slow", *files)
        assert done.returncode == 3, done.stderr
        assert "Changed: version of torch: 2.13.0 → 9.9" in done.stdout
        suite = ET.parse(tmp_path / "gate.xml").getroot().find("testsuite")
        assert suite is not None
        assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["skipped"]) == ("4", "2", "0")
        failures = {case.attrib["name"]: case[0].attrib["message"] for case in suite.iter("testcase") if len(case)}
        assert set(failures) == {f"speedup: chat, ngram γ4, batch size {b}" for b in (1, 4)}
        assert all(re.search(r"-9\.\d% \(95%: .* worse by more than 3%", text) for text in failures.values())
        assert (tmp_path / "gate.md").read_text().startswith("## Gate: FAIL")

    def test_too_little_data_is_inconclusive_and_says_how_much_would_do(self, specbench: Any) -> None:
        done = specbench("gate", "--baseline", "before", "--candidate", "short", "--metric", "speedup", "--json")
        assert done.returncode == 4, done.stderr
        result = json.loads(done.stdout)
        assert (result["verdict"], result["exit_code"]) == ("INCONCLUSIVE", 4)
        assert result["replicates_needed"] >= 5
        assert {tuple(f["replicates"]) for f in result["findings"]} == {(5, 2)}

    def test_another_machine_is_refused_with_the_reason(self, specbench: Any) -> None:
        done = specbench("gate", "--baseline", "before", "--candidate", "elsewhere")
        assert done.returncode == 1
        assert "before and elsewhere cannot be compared: hardware: 2-core CPU" in done.stderr
        assert "→ 1 × H200" in done.stderr

    def test_a_committed_file_stands_in_for_its_run(self, specbench: Any, tmp_path: Path) -> None:
        saved = specbench("baseline", "save", "before")
        assert saved.returncode == 0, saved.stderr
        assert saved.stdout == "baseline.json: 4 cells, 5 replicates of before.\n"
        from_run, from_file = (
            json.loads(specbench("gate", "--baseline", side, "--candidate", "slow", "--json").stdout)
            for side in ("before", "baseline.json")
        )
        for a, b in zip(from_run["findings"], from_file["findings"], strict=True):
            assert (a["cell"], a["about"], a["outcome"]) == (b["cell"], b["about"], b["outcome"])
            assert a["low"] == pytest.approx(b["low"], rel=1e-5)
        shown = specbench("baseline", "show", "baseline.json").stdout
        assert re.search(r"chat, ngram γ4, batch size 4\t1\.66\d\t2\t", shown)
        kept = json.loads(specbench("baseline", "show", "baseline.json", "--json").stdout)
        assert kept == json.loads((tmp_path / "baseline.json").read_text())

    def test_a_floor_and_unchanged_outputs_need_no_baseline(self, specbench: Any) -> None:
        asked = ("gate", "--candidate", "same", "--require-equivalence", "--at", "batch_size=1", "--min-speedup")
        reached, missed = specbench(*asked, 1.5), specbench(*asked, 1.9)
        assert (reached.returncode, missed.returncode) == (0, 3)
        assert "against a floor of 1.9: below the floor" in missed.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "say what is gated: --candidate RUN"),
        (("--candidate", "x"), "a candidate alone needs --min-speedup"),
        (("--candidate", "x", "--interleave", "a", "b"), "--interleave measures both sides itself"),
        (("--candidate", "x", "--output", "y"), "--output is for the runs of --interleave"),
        (("--candidate", "x", "--baseline", "y"), "y does not exist"),
        (("--candidate", "x", "--baseline", "y", "--metric", "speed"), "a gate cannot compare 'speed'"),
        (("--candidate", "x", "--baseline", "y", "--max-regression", "3"), "--max-regression: expected a percentage"),
        (("--candidate", "x", "--at", "gamma=3"), "--at says where a floor holds"),
        (("--candidate", "x", "--min-speedup", "-1"), "--min-speedup: expected a number above 0"),
        (("--candidate", "x", "--min-speedup", "1.2", "--at", "gamma"), "--at: expected NAME=VALUE"),
        (("--interleave", "a.yaml", "b.yaml", "--max-replicates", "3"), "a gate needs 5 pairs"),
    ],
)
def test_a_mistake_is_one_sentence(specbench: Any, arguments: tuple[str, ...], says: str) -> None:
    done = specbench("gate", *arguments)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


SCENARIO = """
name: toy
step: {weights_ms: 2}
prefill: {fixed_ms: 2}
output: {tokens: 12, ends: false}
methods:
  ngram: {acceptance: {alpha: %s}}
"""
CONFIG = """
backend: simulated
target: none
scenario: %s
workload: [%s]
method: [ngram]
gamma: [3]
batch_size: [1]
max_tokens: 12
"""


def test_two_configurations_are_measured_in_turns_and_a_worse_drafter_fails(
    specbench: Any, workload: Path, tmp_path: Path
) -> None:
    """By acceptance, which a busy machine does not move: real servers of known truth, five pairs of launches."""
    for name, alpha in (("old", 0.8), ("new", 0.5)):
        (tmp_path / f"{name}-scenario.yaml").write_text(SCENARIO % alpha)
        (tmp_path / f"{name}.yaml").write_text(CONFIG % (f"{name}-scenario.yaml", workload))
    asked = ("--metric", "mean_acceptance_length", "--max-replicates", 5, "--output", "session")
    done = specbench("gate", "--interleave", "old.yaml", "new.yaml", *asked, "--json")
    assert done.returncode == 3, done.stderr
    assert "[2/20] starting B none-r0" in done.stderr
    result = json.loads(done.stdout)
    assert result["simulated"] is True
    assert result["paired"] is True
    (finding,) = result["findings"]
    assert finding["outcome"] == "regression"
    assert finding["replicates"] == [5, 5]
    assert finding["after"] < finding["before"]
    assert any(change.startswith("scenario: ") for change in result["changes"])
    session = tmp_path / "session"
    stored = ("gate", "--baseline", session / "a-old", "--candidate", session / "b-new", "--metric")
    assert specbench(*stored, "mean_acceptance_length").returncode == 3
    itself = ("gate", "--baseline", session / "a-old", "--candidate", session / "a-old", "--metric")
    assert specbench(*itself, "mean_acceptance_length").returncode == 0


def commands(value: Any) -> list[str]:
    """Every specbench command line in a CI file, continuation lines joined."""
    if isinstance(value, str):
        joined = value.replace("\\\n", " ")
        return re.findall(r"(?m)^\s*(specbench .*)$", joined)
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [command for item in nested for command in commands(item)]


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_the_ready_made_ci_files_parse_and_the_command_line_knows_all_they_say(name: str) -> None:
    found = commands(yaml.safe_load((CI / name).read_text()))
    assert any(command.startswith("specbench gate --baseline") for command in found)
    for command in found:
        words = [word for word in shlex.split(command.partition("||")[0]) if word != ";"]
        group: Any = typer.main.get_command(app)
        arguments = words[1:]
        while hasattr(group, "commands"):
            group, arguments = group.commands[arguments[0]], arguments[1:]
        group.make_context("specbench", arguments)  # raises for an option that there is not


def test_the_ready_made_ci_files_have_what_their_system_needs() -> None:
    github = yaml.safe_load((CI / "github-actions.yml").read_text())
    assert set(github) == {"name", True, "concurrency", "jobs"}  # YAML 1.1 reads `on` as true
    for job in github["jobs"].values():
        assert {"runs-on", "steps"} <= set(job)
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    gitlab = yaml.safe_load((CI / "gitlab-ci.yml").read_text())["speculation"]
    assert gitlab["allow_failure"] == {"exit_codes": 4}
    assert gitlab["artifacts"]["reports"]["junit"] == "gate.xml"
    assert "--junit gate.xml" in gitlab["script"][1]


def test_the_ready_made_sweep_has_the_replicates_that_a_gate_needs() -> None:
    assert load_config(CI / "sweep.yaml", {}).replicates == 5
