"""`specbench train eagle3`: one command from prompts to a head that the reference decoder runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specbench.cli import train
from specbench.decoder.load import load_engine
from specbench.errors import SpecbenchError


def write_prompts(path: Path, *texts: str) -> Path:
    path.write_text(
        "".join(json.dumps({"id": f"{path.stem}-{i}", "prompt": text}) + "\n" for i, text in enumerate(texts))
    )
    return path


@pytest.fixture
def arguments(tiny_target: Path, tmp_path: Path) -> list[str]:
    prompts = write_prompts(tmp_path / "mine.jsonl", *(f"ticket {i * 7919 % 997}" for i in range(40)), "shared words")
    judged = write_prompts(tmp_path / "judged.jsonl", "a question", "shared words", "another one")
    return [
        "eagle3", "--target", str(tiny_target), "--prompts", str(prompts), "--evaluate", str(judged),
        "--output", str(tmp_path / "out"), "--epochs", "1", "--max-tokens", "24", "--vocabulary", "128", "--quiet",
    ]  # fmt: skip


def test_one_command_trains_a_head_and_says_what_it_is_worth(
    arguments: list[str], tiny_target: Path, tmp_path: Path
) -> None:
    result = CliRunner().invoke(train.app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report == json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["method"] == "eagle3"
    assert [prompts["name"] for prompts in report["trained_on"]] == ["mine.jsonl"]
    assert [prompts["name"] for prompts in report["evaluated_on"]] == ["held out of the above", "judged.jsonl"]
    assert report["draft_vocab_size"] == 128
    assert 0 < report["coverage"] <= 1
    for row in report["acceptance"].values():
        assert 1 <= row["mean_acceptance_length"] <= 4
        assert len(row["position_acceptance"]) == 3
    for layout in ("safeailab", "speculators"):
        head = tmp_path / "out" / layout
        assert (
            load_engine(tiny_target, method="eagle3", gamma=2, drafter=head, max_model_len=64).drafter.weights_bytes > 0
        )


def test_other_heads_are_trained_by_the_same_command(arguments: list[str], tiny_target: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(train.app, ["medusa", *arguments[1:]], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"The head is in {tmp_path / 'out' / 'head'}." in result.stdout
    assert json.loads((tmp_path / "out" / "report.json").read_text())["method"] == "medusa"
    engine = load_engine(tiny_target, method="medusa", gamma=4, drafter=tmp_path / "out" / "head", max_model_len=64)
    assert engine.drafter.weights_bytes > 0


def test_a_prompt_that_is_judged_by_is_not_trained_on(arguments: list[str], tmp_path: Path) -> None:
    CliRunner().invoke(train.app, arguments, catch_exceptions=False)
    asked = (tmp_path / "out" / "data" / "asked.txt").read_text().split()
    assert len(asked) == 40
    assert "mine-40" not in asked


def test_the_report_is_a_table_for_people(arguments: list[str]) -> None:
    result = CliRunner().invoke(train.app, arguments, catch_exceptions=False)
    assert "held out\t" in result.stdout
    assert "judged\t3\t" in result.stdout


def test_the_same_command_again_goes_on_instead_of_beginning(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = CliRunner().invoke(train.app, [*arguments, "--json"], catch_exceptions=False)
    from specbench.train import data

    monkeypatch.setattr(data, "record_answers", lambda target, requests, *rest: iter(requests and [None]))
    again = CliRunner().invoke(train.app, [*arguments, "--json"], catch_exceptions=False)
    assert json.loads(again.stdout) == json.loads(first.stdout)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("--prompts", "nowhere.jsonl"), "no workload file nowhere.jsonl"),
        (("--target", "./nowhere"), "no model directory"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], changed: tuple[str, str], said: str) -> None:
    with pytest.raises(SpecbenchError, match=said):
        CliRunner().invoke(train.app, [*arguments, *changed], catch_exceptions=False)


def test_nothing_to_train_on_and_training_on_the_exam_are_refused(tiny_target: Path, tmp_path: Path) -> None:
    base = ["eagle3", "--target", str(tiny_target), "--output", str(tmp_path)]
    with pytest.raises(SpecbenchError, match="nothing to train on"):
        CliRunner().invoke(train.app, base, catch_exceptions=False)
    file = str(write_prompts(tmp_path / "p.jsonl", "one"))
    with pytest.raises(SpecbenchError, match="trained on and evaluated on"):
        CliRunner().invoke(train.app, [*base, "--prompts", file, "--evaluate", file], catch_exceptions=False)
    with pytest.raises(SpecbenchError, match="too few to train on"):
        CliRunner().invoke(train.app, [*base, "--prompts", file, "--max-tokens", "16"], catch_exceptions=False)
