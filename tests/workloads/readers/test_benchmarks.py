"""Published benchmarks are read as they are published: prompts with what a right answer is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.workloads import load_workload
from specbench.workloads.reference import Reference

CAKES = {"question": "Ana bakes 1,200 cakes and eats 3. How many are left?", "answer": "1,200 - 3 = 1197\n#### 1,197"}
DOUBLE = {
    "task_id": "Own/0",
    "prompt": 'def double(x):\n    """Twice x."""\n',
    "entry_point": "double",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(3) == 6\n",
}


def test_gsm8k_is_asked_as_a_chat_and_the_number_is_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "gsm8k.jsonl"
    path.write_text(json.dumps(CAKES) + "\n")
    (prompt,) = load_workload(path).prompts
    assert prompt.messages == ({"role": "user", "content": CAKES["question"]},)
    assert prompt.reference == Reference(("1197",), "number")
    assert prompt.id == "gsm8k-1"


def test_humaneval_is_gone_on_from_and_its_tests_are_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "HumanEval.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(DOUBLE).encode() + b"\n"))
    (prompt,) = load_workload(path).prompts
    assert (prompt.id, prompt.prompt) == ("Own/0", DOUBLE["prompt"])
    assert prompt.reference is not None
    assert prompt.reference.rule == "code"
    assert prompt.reference.answers[0].endswith("check(double)\n")


def test_a_file_that_is_not_packed_as_its_name_says_is_named(tmp_path: Path) -> None:
    path = tmp_path / "HumanEval.jsonl.gz"
    path.write_text(json.dumps(DOUBLE))
    with pytest.raises(SpecbenchError, match=r"HumanEval\.jsonl\.gz is not whole, or not packed by gzip"):
        load_workload(path)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({**CAKES, "answer": "none at all"}, '"answer" ends in no number'),
        ({**CAKES, "question": ""}, '"question" is empty'),
        ({"prompt": "Hi", "reference": []}, '"reference" is empty'),
        ({"prompt": "Hi", "reference": {"a": 1}}, '"reference" must be a string; got an object'),
        ({"prompt": "Hi", "score": "exact"}, '"score" has no "reference"'),
        ({"prompt": "Hi", "reference": "x", "score": "guess"}, '"score" is "guess"'),
        ({"prompt": "Hi", "reference": "(", "score": "regex"}, "is no regular expression"),
        ({"prompt": "Hi", "reference": "x", "score": "number"}, "holds no number"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(entry: dict[str, object], said: str, tmp_path: Path) -> None:
    path = tmp_path / "task.jsonl"
    path.write_text(json.dumps(entry))
    with pytest.raises(SpecbenchError) as raised:
        load_workload(path)
    assert str(raised.value).startswith(f"{path}:1: ")
    assert said in str(raised.value)


def test_right_answers_of_ones_own_are_a_text_a_number_or_several(tmp_path: Path) -> None:
    path = tmp_path / "task.jsonl"
    path.write_text(
        '{"prompt": "2+2?", "reference": 4, "score": "number"}\n'
        '{"prompt": "Brazil?", "reference": ["Brasilia", "Brasília"]}\n'
    )
    assert [prompt.reference for prompt in load_workload(path).prompts] == [
        Reference(("4",), "number"),
        Reference(("Brasilia", "Brasília")),
    ]
