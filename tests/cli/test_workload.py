from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specbench.cli.workload import app
from specbench.errors import SpecbenchError

run = CliRunner().invoke


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "one two three", "category": "[counts]"}\nbroken\n{"prompt": "one"}\n')
    return path


def test_a_broken_line_stops_it_with_the_librarys_sentence(file):
    with pytest.raises(SpecbenchError, match=r"mine\.jsonl:2: not valid JSON"):
        run(app, ["show", str(file)], catch_exceptions=False)


def test_json_has_the_documented_keys_and_counts_what_was_skipped(file):
    report = json.loads(run(app, ["show", str(file), "--skip-bad-lines", "--json"]).stdout)
    (problem,) = report.pop("first_problems")
    assert problem.startswith(f"{file}:2: not valid JSON")
    assert len(report.pop("sha256")) == 64
    assert report == {
        "name": "mine",
        "path": str(file),
        "prompts": 2,
        "multi_turn": 0,
        "categories": {"[counts]": 1, "(none)": 1},
        "duplicates": 0,
        "target": None,
        "unit": "words",
        "length": {"min": 1, "median": 2.0, "mean": 2.0, "max": 3},
        "histogram": [
            {"from": 1, "below": 2, "prompts": 1},
            {"from": 2, "below": 3, "prompts": 0},
            {"from": 3, "below": 4, "prompts": 1},
        ],
        "repetition": 0.0,
        "skipped": 1,
    }


def test_a_person_sees_sizes_categories_and_the_first_problems(file):
    shown = run(app, ["show", str(file), "--skip-bad-lines"]).stdout
    assert "prompts\t2, 0 of them multi-turn" in shown
    assert "[counts]\t1" in shown
    assert "skipped\t1 broken lines" in shown
    assert f"{file}:2: not valid JSON" in shown


def test_with_a_target_tokens_are_counted(file, demo_target):
    report = json.loads(
        run(app, ["show", str(file), "--skip-bad-lines", "--json", "--target", str(demo_target)]).stdout
    )
    assert (report["unit"], report["length"]["max"]) == ("tokens", 3)
