"""A task on real servers of the reference decoder: a bug that changes answers is found, correct speculation passes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from planted import sample
from transformers import AutoTokenizer

from specbench.decoder.load import load_engine
from specbench.decoder.sampling import SamplingParams
from specbench.errors import SpecbenchError
from specbench.sweep.config import SweepConfig
from specbench.verification.settings import Effort, Subject, prepare
from specbench.verification.task import TASK_DEFAULTS, Question, run_task
from specbench.verification.text import task_lines

from .test_flow import PlantedBackend

PROMPTS = 16


def subject(target: Path, draft: Path, workload: Path, output: Path, **changed: object) -> Subject:
    config = {
        "target": str(target),
        "method": ("draft_model",),
        "drafter": {"draft_model": str(draft)},
        "workload": (workload,),
        "max_tokens": 16,
        "max_model_len": 128,
        "threads": 1,
    }
    made = SweepConfig.model_validate({**TASK_DEFAULTS, **config, **changed})
    return prepare(made, Effort(), output, note=lambda text: None)


def plain_texts(target: Path, prompts: list[str], max_tokens: int = 16) -> list[str]:
    """What plain greedy decoding says, without a server."""
    engine = load_engine(target, max_batch_size=len(prompts), max_model_len=128)
    tokenizer = AutoTokenizer.from_pretrained(target)
    contexts = [tuple(tokenizer(prompt).input_ids) for prompt in prompts]
    draws = sample(engine, contexts, 1, max_tokens, SamplingParams(temperature=0.0))
    return [tokenizer.decode(d.tokens, skip_special_tokens=True) for d in sorted(draws, key=lambda d: d.context)]


@pytest.fixture
def task(open_target: Path, tmp_path: Path) -> Path:
    """Prompts whose right answer is what plain decoding says, but for every fourth: it scores 75 % by construction."""
    prompts = [f"{i} sheep and {i * i} goats" for i in range(PROMPTS)]
    answers = [said if i % 4 else "something else" for i, said in enumerate(plain_texts(open_target, prompts))]
    path = tmp_path / "task.jsonl"
    lines = (json.dumps({"prompt": p, "reference": a}) + "\n" for p, a in zip(prompts, answers, strict=True))
    path.write_text("".join(lines))
    return path


async def test_a_bug_that_changes_answers_is_found_and_correct_speculation_passes(
    open_target: Path, noisy_draft: Path, task: Path, tmp_path: Path
) -> None:
    made = subject(open_target, noisy_draft, task, tmp_path / "out")
    found = await run_task(made, Question(), note=lambda text: None)
    arm = found.task.arms["draft_model-g4"]
    assert (found.outcome, found.exit_code) == ("NOT WORSE", 0)
    assert arm.equivalence is not None
    assert arm.equivalence.verdict == "EXACT"
    assert arm.paired.first.score == arm.paired.second.score == 0.75
    assert arm.again is not None
    assert arm.again.diverged == 0

    planted = replace(made, backend=PlantedBackend("stale KV in 30 % of steps"))
    found = await run_task(planted, Question(), note=lambda text: None)
    arm = found.task.arms["draft_model-g4"]
    assert (found.outcome, found.exit_code) == ("WORSE", 3)
    assert arm.equivalence is not None
    assert arm.equivalence.verdict == "DIVERGENT"
    assert arm.paired.lost >= 6
    assert arm.paired.gained == 0
    assert json.loads(json.dumps(found.to_json()))["task"]["arms"]["draft_model-g4"]["lost"] == arm.paired.lost
    assert task_lines(found)[0].startswith("WORSE: draft_model-g4 against none on specbench reference decoder")


async def test_at_a_temperature_prompts_are_sampled_several_times(
    open_target: Path, noisy_draft: Path, task: Path, tmp_path: Path
) -> None:
    made = subject(open_target, noisy_draft, task, tmp_path / "out", temperature=0.8, prompts=6, max_tokens=4)
    found = await run_task(made, Question(samples=3), note=lambda text: None)
    arm = found.task.arms["draft_model-g4"]
    assert (arm.paired.prompts, arm.paired.outputs, arm.equivalence) == (6, 18, None)
    assert found.settings["requests"] == 18


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rule": "exact", "command": "judge"}, "leave one of them out"),
        ({"rule": "guess"}, "Choose from: exact, contains"),
        ({"samples": 0}, "--samples must be at least 1"),
        ({"level": 1.5}, "--level must be between"),
    ],
)
def test_a_question_that_means_nothing_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(SpecbenchError, match=said):
        Question(**wrong)  # type: ignore[arg-type]


def test_greedy_decoding_is_asked_once(open_target: Path) -> None:
    config = SweepConfig.model_validate(TASK_DEFAULTS)
    with pytest.raises(SpecbenchError, match="--samples 3 of greedy decoding are all the same"):
        Question(samples=3).requests(config, workload=None)  # type: ignore[arg-type]
