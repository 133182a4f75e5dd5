"""A task is scored from the outputs that a run has stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_run import NGRAM, measurement, store

from specbench.errors import SpecbenchError
from specbench.speculation import Speculation
from specbench.tasks.check import check_task
from specbench.tasks.scoring import task_by_rules
from specbench.tasks.stored import stored_outputs
from specbench.workloads.prompt import Prompt, Workload
from specbench.workloads.reference import Reference

RIGHT = (1, 2, 3)
WRONG = (9, 9, 9)


def chat(sha256: str = "cd" * 32) -> Workload:
    """Prompts of which "1 2 3" is the right answer; `known_run` writes token ids as text."""
    prompts = tuple(Prompt(f"p{i:03}", prompt="Hi", reference=Reference(("1 2 3",))) for i in range(20))
    return Workload("chat", Path("chat.jsonl"), prompts, sha256)


def outputs(wrong: int) -> dict[int, tuple[int, ...]]:
    return {i: WRONG if i < wrong else RIGHT for i in range(20)}


def test_every_cell_is_held_against_plain_decoding_of_its_batch_size(tmp_path: Path) -> None:
    store(
        tmp_path / "run",
        [
            measurement(requests=20, outputs=outputs(0)),
            measurement(requests=20, outputs=outputs(1), replicate=1),
            measurement(NGRAM, requests=20, outputs=outputs(8)),
            measurement(batch_size=4, requests=20, outputs=outputs(2)),
            measurement(NGRAM, 4, requests=20, outputs=outputs(2)),
        ],
    )
    stored = stored_outputs(tmp_path / "run", chat())
    check = check_task(task_by_rules(chat(), None, run_code=False), stored.arms)
    assert {name: arm.outcome for name, arm in check.arms.items()} == {
        "chat-ngram-g4-b1": "WORSE",
        "chat-ngram-g4-b4": "NOT WORSE",
    }
    worse = check.arms["chat-ngram-g4-b1"]
    assert (worse.paired.lost, worse.paired.p) == (8, pytest.approx(2 * 0.5**8))
    assert worse.equivalence is not None
    assert worse.equivalence.verdict == "DIVERGENT"
    assert worse.again is not None
    assert worse.again.lost == 1


def test_another_file_another_method_or_no_baseline_is_refused(tmp_path: Path) -> None:
    store(tmp_path / "run", [measurement(requests=20), measurement(NGRAM, requests=20)])
    with pytest.raises(SpecbenchError, match=r"did not replay chat\.jsonl as it is now \(its workloads: chat\)"):
        stored_outputs(tmp_path / "run", chat(sha256="other"))
    with pytest.raises(SpecbenchError, match="no outputs of eagle3"):
        stored_outputs(tmp_path / "run", chat(), ["eagle3"])
    store(tmp_path / "alone", [measurement(Speculation("ngram", 2), requests=20)])
    with pytest.raises(SpecbenchError, match="no outputs of speculation"):
        stored_outputs(tmp_path / "alone", chat())
