"""The demo drafters never saw what they are judged by."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

from specbench.demo.train.prompts import KINDS, template_prompts

WORKLOADS = Path(__file__).parents[3] / "workloads"


def texts(lines: list[dict[str, object]]) -> list[str]:
    return [m["content"] for line in lines for m in line.get("messages", ())]  # type: ignore[attr-defined]


def test_no_template_prompt_stands_in_a_workload() -> None:
    judged = {
        text
        for file in WORKLOADS.glob("*.jsonl")
        for text in texts([json.loads(x) for x in file.read_text().splitlines()])
    }
    assert judged
    assert not judged & set(texts(list(islice(template_prompts(), 2000))))


def test_prompts_are_of_every_kind_none_twice_and_the_same_every_time() -> None:
    lines = list(islice(template_prompts(), 1500))
    assert {line["category"] for line in lines} == set(KINDS)
    assert len(set(texts(lines))) == len(lines) == len({line["id"] for line in lines})
    assert lines == list(islice(template_prompts(), 1500))
