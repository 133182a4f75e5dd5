"""`specbench profile` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specbench.cli.main import app
from specbench.errors import SpecbenchError

PHRASE = "the quick brown fox jumps over the lazy dog "

KEYS = {
    *("source", "simulated", "unit", "tokenizer", "skipped", "promptless", "requests", "loops", "keep_loops"),
    *("suffix_cached_requests", "prompt_tokens", "response_tokens", "seconds", "gammas", "methods"),
}
METHOD_KEYS = {
    *("method", "cost_per_drafted_token", "cost_source", "requests", "tokens", "gammas", "best_gamma"),
    *("best_speedup", "oracle_speedup", "by_category", "by_output_position"),
}
GAMMA_KEYS = {
    *("gamma", "steps", "drafts", "drafted", "accepted", "mean_acceptance_length", "mean_acceptance_length_per_draft"),
    *("mean_acceptance_length_per_request", "draft_acceptance_rate", "alpha", "position_acceptance"),
    *("conditional_acceptance", "predicted_speedup"),
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A request to copy, one to invent, and one that the model could not end."""
    path = tmp_path / "answers.jsonl"
    lines = [
        {"prompt": f"Copy: {PHRASE * 2}", "response": PHRASE * 2, "category": "copy"},
        {"prompt": "Say something new.", "response": " ".join(f"word{i}" for i in range(40)), "category": "new"},
        {"prompt": "Count.", "response": "ha" + " ha" * 200, "category": "copy"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["profile", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_logs_need_no_model_and_json_has_the_documented_keys(logs: Path, tmp_path: Path) -> None:
    report = json.loads(run("--logs", logs, "--gamma", "1-4", "--json", "--output", tmp_path / "out"))
    assert report == json.loads((tmp_path / "out" / "profile.json").read_text())
    assert report.keys() == KEYS
    assert (report["unit"], report["requests"], report["loops"], report["gammas"]) == ("words", 3, 1, [1, 2, 3, 4])
    assert [method["method"] for method in report["methods"]] == ["ngram", "suffix"]
    for method in report["methods"]:
        assert method.keys() == METHOD_KEYS
        assert method["requests"] == 2
        assert [row["gamma"] for row in method["gammas"]] == [1, 2, 3, 4]
        assert all(row.keys() == GAMMA_KEYS for row in method["gammas"])
        copied, new = method["by_category"]["copy"], method["by_category"]["new"]
        assert (copied["requests"], new["requests"]) == (1, 1)
        assert (copied["best_gamma"] >= 3, new["best_gamma"]) == (True, 0)
        assert new["gammas"][3]["mean_acceptance_length"] == new["best_speedup"] == new["oracle_speedup"] == 1
        assert method["oracle_speedup"] >= method["best_speedup"] > 1
        # All steps stand in some span of output positions.
        spans = [row for span in method["by_output_position"] for row in span["gammas"] if row["gamma"] == 2]
        for count in ("steps", "drafted", "accepted"):
            assert sum(row[count] for row in spans) == method["gammas"][1][count]


def test_token_ids_need_no_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "ids.jsonl"
    path.write_text('{"prompt_token_ids": [1, 2, 3, 4], "token_ids": [1, 2, 3, 4, 5]}\n')
    report = json.loads(run("--logs", path, "--method", "ngram", "--gamma", "2", "--json"))
    assert (report["unit"], report["tokenizer"]) == ("tokens", None)
    # 1 from the prefill, 2 by itself, then 3 and 4 as drafted and 5 as the bonus.
    assert (report["methods"][0]["gammas"][0]["steps"], report["methods"][0]["gammas"][0]["accepted"]) == (2, 2)


@pytest.mark.parametrize("tokenizer", ["words", "bytes"])
@pytest.mark.parametrize("reason", [None, "length", "stop"])
@pytest.mark.parametrize("tail", ["", "the ca", "the cat sat ", "the cat sat on the mat.\n\n"])
def test_a_loop_is_one_however_the_limit_cut_its_text(
    tmp_path: Path, tokenizer: str, reason: str | None, tail: str
) -> None:
    path = tmp_path / "loop.jsonl"
    line = {"prompt": "Where?", "response": "the cat sat on the mat. " * 50 + tail, "finish_reason": reason}
    path.write_text(json.dumps(line) + "\n")
    report = json.loads(run("--logs", path, "--tokenizer", tokenizer, "--method", "ngram", "--json"))
    assert (report["requests"], report["loops"]) == (1, 1)


def test_loops_count_when_asked_for(logs: Path) -> None:
    kept, left_out = (
        json.loads(run("--logs", logs, "--method", "ngram", "--json", *options))["methods"][0]
        for options in (("--keep-loops",), ())
    )
    assert (kept["requests"], left_out["requests"]) == (3, 2)
    assert kept["gammas"][7]["mean_acceptance_length"] > left_out["gammas"][7]["mean_acceptance_length"]


def test_a_cost_makes_a_long_draft_dear(logs: Path) -> None:
    def best(*options: str) -> Any:
        return json.loads(run("--logs", logs, "--method", "ngram", "--json", *options))["methods"][0]

    free, dear = best(), best("--cost", "ngram=5")
    assert (free["best_gamma"] > 0, dear["best_gamma"]) == (True, 0)
    assert (dear["cost_per_drafted_token"], dear["cost_source"]) == (5, "given")


def test_a_person_sees_tables_and_what_to_know_of_them(logs: Path) -> None:
    shown = run("--logs", logs, "--gamma", "2,4")
    assert "# ngram: acceptance of every gamma: gamma, " in shown
    assert "\n2\t" in shown
    assert "\ncopy\t1\t4\t" in shown
    assert "new\t1\tnone\t–\t1.00\t1.00\n" in shown
    assert "ngram: gamma 4 is best, " in shown
    assert "Counted in words, not in the model's tokens: give --tokenizer" in shown
    assert "1 responses end in a loop, which accepts anything: left out; --keep-loops counts them." in shown


def test_a_memory_of_earlier_responses_helps_who_asks_the_same_again(tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    line = json.dumps({"prompt": "Say something new.", "response": " ".join(f"word{i}" for i in range(40))})
    path.write_text(f"{line}\n{line}\n")
    alone, remembered = (
        json.loads(run("--logs", path, "--method", "suffix", "--suffix-cached-requests", size, "--json"))["methods"][0]
        for size in (0, 10)
    )
    assert alone["gammas"][7]["accepted"] == 0
    assert remembered["gammas"][7]["mean_acceptance_length"] > 1.5


@pytest.mark.parametrize("method", ["ngram", "suffix", "draft_model"])
def test_prompts_are_answered_first(tiny_target: Path, tmp_path: Path, method: str) -> None:
    workload = tmp_path / "prompts.jsonl"
    workload.write_text(
        '{"id": "a", "prompt": "abcabcabc", "category": "letters"}\n'
        '{"id": "b", "messages": [{"role": "user", "content": "0101"}], "max_tokens": 5}\n'
    )
    drafter = ("--drafter", f"draft_model={tiny_target}") if method == "draft_model" else ()
    report = json.loads(
        run("--workload", workload, "--target", tiny_target, "--method", method, *drafter, "--gamma", "1,3",
            "--max-tokens", "20", "--keep-loops", "--threads", "1", "--quiet", "--json")
    )  # fmt: skip
    (profiled,) = report["methods"]
    assert (report["unit"], report["requests"], report["too_long"]) == ("tokens", 2, 0)
    assert set(profiled["by_category"]) == {"letters", "(none)"}
    if method == "draft_model":
        # Its own draft model is never wrong, and as dear as itself.
        assert profiled["gammas"][1]["conditional_acceptance"] == [1, 1, 1]
        assert (profiled["cost_per_drafted_token"], profiled["best_gamma"]) == (1, 0)
        assert profiled["cost_source"] == "estimated from the bytes of weights"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "give either --logs FILE"),
        (("--logs", "x", "--workload", "y"), "give either --logs FILE"),
        (("--logs", "nowhere.jsonl"), "no log file nowhere.jsonl"),
        (("--logs", "x", "--method", "eagle3"), "eagle3 needs its weights: give --workload and --target"),
        (("--logs", "x", "--gamma", "0"), "gammas are 1 to 64"),
        (("--logs", "x", "--gamma", "8-1"), "gammas are 1 to 64"),
        (("--logs", "x", "--gamma", "few"), "--gamma: expected whole numbers"),
        (("--logs", "x", "--cost", "ngram"), "--cost: expected METHOD=COST"),
        (("--logs", "x", "--run", "nowhere"), "nowhere is not a run of specbench sweep"),
        (("--workload", "x", "--method", "eagle3"), "method eagle3 needs a drafter: --drafter eagle3=DIRECTORY"),
        (("--workload", "x", "--method", "medusa"), "method medusa cannot be profiled. Choose from: ngram, suffix"),
        (("--logs", "x", "--threads", "2"), "--threads is for --workload; logs are answered already"),
        (("--workload", "x", "--tokenizer", "words"), "--tokenizer is for --logs"),
        (("--logs", "x", "--run-batch-size", "4"), "--run-batch-size chooses among the cells of --run RUN"),
        (("--workload", "nowhere.jsonl"), "no workload file nowhere.jsonl"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence) as raised:
        run(*arguments)
    assert "\n" not in str(raised.value)


def test_a_log_without_a_response_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(SpecbenchError, match=r"empty\.jsonl holds no response to profile"):
        run("--logs", tmp_path / "empty.jsonl")


def test_profiling_logs_needs_no_torch(logs: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys\nfrom specbench.cli.main import app\n"
        f"try: app(['profile', '--logs', {str(logs)!r}, '--json'])\nexcept SystemExit: pass\n"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
