"""`specbench verify` as a user runs it: verdicts, exit codes, and mistakes that are named."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
from known_run import NGRAM, measurement, store

QUICK = ("--gamma", 1, "--prompts", 4, "--max-tokens", 12, "--max-model-len", 256, "--threads", 1, "--quiet")


def test_coupled_verification_keeps_what_a_seed_promises_and_too_few_draws_decide_nothing(
    specbench, tiny_target: Path, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    result = specbench(
        *("verify", "--method", "draft_model", "--target", tiny_target, "--drafter", f"draft_model={tiny_target}"),
        *("--verification", "coupled", "--draws", 5, "--contexts", 2, "--positions", 20, "--output", "out", "--json"),
        *QUICK,
    )
    assert result.returncode == 4, result.stderr
    found = json.loads(result.stdout)
    assert found["verdict"] == "INCONCLUSIVE"
    assert found["greedy"]["arms"]["draft_model-g1"]["verdict"] == "EXACT"
    assert found["seeds_promised"] is True
    assert found["seeds"]["draft_model-g1"] == {"requests": 8, "rerun": 8, "alone": 8, "as_baseline": 8}
    assert json.loads((tmp_path / "out" / "verify.json").read_text()) == found


def test_greedy_only_asks_nothing_else(specbench, tiny_target: Path) -> None:  # type: ignore[no-untyped-def]
    result = specbench("verify", "--method", "ngram", "--target", tiny_target, "--greedy-only", *QUICK)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("EQUIVALENT: ngram-g1 against none on specbench reference decoder")
    assert "Sampling" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--method", "none"), "name a method that speculates"),
        (("--method", "ngram", "--draws", "0"), "--draws must be at least 1"),
        (("--method", "medusa"), "method medusa needs a drafter"),
        (("--method", "ngram", "--backend", "simulated"), "give --backend reference or vllm"),
        (("--method", "ngram", "--backend", "attach"), "--backend attach starts none"),
        ((), "name with --method what proposes tokens"),
        (("--method", "ngram", "--score", "exact"), "--score is about a task's score: add --task FILE"),
        (("--method", "ngram", "--task", "none.jsonl"), "no workload file none.jsonl"),
        (("--method", "ngram", "--task", "none.jsonl", "--draws", "5"), "--draws is of the tests that --task takes"),
        (("--run", "none", "--task", "none.jsonl"), "--target cannot change what --run has stored"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_1(specbench, arguments: tuple[str, ...], said: str) -> None:  # type: ignore[no-untyped-def]
    result = specbench("verify", *arguments, "--target", "demo")
    assert result.returncode == 1
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_stored_run_is_scored_without_an_engine(specbench, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    task = tmp_path / "chat.jsonl"
    task.write_text(
        "".join(json.dumps({"id": f"p{i:03}", "prompt": "Hi", "reference": "1 2 3"}) + "\n" for i in range(8))
    )
    outputs = dict.fromkeys(range(8), (1, 2, 3))
    changed = {**outputs, **dict.fromkeys(range(7), (9, 9, 9))}
    run = store(
        tmp_path / "run",
        [measurement(outputs=outputs), measurement(NGRAM, outputs=changed)],
        dtype="float32",
        top_p=1.0,
    )
    manifest = run.manifest
    manifest["workloads"][0]["sha256"] = hashlib.sha256(task.read_bytes()).hexdigest()
    run.write_json("manifest.json", manifest)

    result = specbench("verify", "--task", task, "--run", "run", "--json", "--output", "scored")
    assert result.returncode == 3, result.stderr
    found = json.loads(result.stdout)
    assert found["verdict"] == "WORSE"
    arm = found["task"]["arms"]["chat-ngram-g4-b1"]
    assert (arm["lost"], arm["gained"], arm["p"]) == (7, 0, pytest.approx(2 * 0.5**7))
    assert json.loads((tmp_path / "scored" / "verify.json").read_text()) == found
    assert "of these 7 scored less and 0 more" in (tmp_path / "scored" / "verify.txt").read_text()

    judge = f"{sys.executable} -c 'print(0.5)'"
    result = specbench("verify", "--task", task, "--run", "run", "--score-command", judge)
    assert result.returncode == 4, result.stdout  # outputs differ, no score does: eight prompts rule out little
    assert result.stdout.startswith("INCONCLUSIVE")
