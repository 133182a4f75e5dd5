"""`specbench verify` as a user runs it: verdicts, exit codes, and mistakes that are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
        (("--method", "mtp"), "does not run mtp"),
        (("--method", "ngram", "--backend", "simulated"), "give --backend reference or vllm"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_1(specbench, arguments: tuple[str, ...], said: str) -> None:  # type: ignore[no-untyped-def]
    result = specbench("verify", *arguments, "--target", "demo")
    assert result.returncode == 1
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
