from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specbench.cli.workload import app, traffic
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


def test_the_format_can_be_said_where_it_is_not_told(tmp_path):
    path = tmp_path / "both.jsonl"
    path.write_text('{"prompt": "one two", "output_tokens": 5, "output_tokens_count": 7}\n')
    with pytest.raises(SpecbenchError, match="--format vllm"):
        run(app, ["show", str(path)], catch_exceptions=False)
    assert json.loads(run(app, ["show", str(path), "--format", "vllm", "--json"]).stdout)["prompts"] == 1


def test_conversion_says_what_was_lost(tmp_path):
    path, out = tmp_path / "question.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"question_id": 81, "category": "writing", "turns": ["Compose.", "Rewrite."]}\nbroken\n')
    done = run(app, ["convert", str(path), str(out), "--to", "openai-batch", "--skip-bad-lines"])
    assert done.stdout.splitlines()[:3] == [
        f"1 prompts are in {out}, as openai-batch has them.",
        "1 lost their category.",
        "1 lost their follow_ups.",
    ]
    assert "1 broken lines were left out, the first: " in done.stdout
    told = json.loads(run(app, ["convert", str(path), str(out), "--skip-bad-lines", "--json"]).stdout)
    assert told.pop("first_problems")[0].startswith(f"{path}:2: ")
    assert told == {"written": 1, "lost": {}, "left_out": {}, "skipped": 1}
    assert json.loads(out.read_text())["follow_ups"] == ["Rewrite."]


TRACE = "Timestamp,Model,Request tokens,Response tokens\n0,a,10,2\n1,a,30,4\n4,a,5,0\n4,a,20,6\n"


def test_traffic_of_a_trace_as_text_and_as_json(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    shown = run(app, ["traffic", str(path)]).stdout
    assert "requests\t3 in 4 s (format: burstgpt)" in shown
    assert "rate\t0.5 requests/s, 1 at the busiest" in shown
    assert "left out\t1 rows without prompt or output tokens" in shown
    record = json.loads(run(app, ["traffic", str(path), "--json"]).stdout)
    told = set(re.findall(r"\w+", (traffic.__doc__ or "").split("Keys of --json:")[1]))
    assert set(record) | set(record["prompt_tokens"]) | set(record["rate"][0]) <= told
    assert (record["format"], record["time_unit"], record["left_out"]) == ("burstgpt", "s", 1)
    assert record["prompt_tokens_per_s"] == pytest.approx(10)


def test_traffic_in_words_is_drawn(tmp_path):
    words = "20 req/s, prompt 800±300, output 250"
    record = json.loads(run(app, ["traffic", words, "--duration", "10m", "--json"]).stdout)
    assert record["format"] == "words"
    assert record["requests_per_s"] == pytest.approx(20, rel=0.05)
    with pytest.raises(SpecbenchError, match="--duration: expected a time"):
        run(app, ["traffic", words, "--duration", "soon"], catch_exceptions=False)
    with pytest.raises(SpecbenchError, match=r"no trace trace\.csv, and no traffic in words either"):
        run(app, ["traffic", "trace.csv"], catch_exceptions=False)


def test_what_cannot_be_meant_of_words_is_refused():
    words = "20 req/s, prompt 800, output 250"
    with pytest.raises(SpecbenchError, match="--format and --time-unit are for traces alone"):
        run(app, ["traffic", words, "--time-unit", "ms"], catch_exceptions=False)
    assert run(app, ["traffic", words, "--seed", "-1"]).exit_code == 2
