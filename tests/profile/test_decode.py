"""Transcripts are what plain greedy decoding says, whoever is decoded beside."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.profile.decode import answer, load_profiler, load_target
from specbench.workloads.prompt import Prompt
from specbench.workloads.stats import tokens

PROMPTS = [Prompt(str(n), prompt="ab" * n, category="even" if n % 2 == 0 else None) for n in range(1, 6)]


def test_answers_come_in_the_order_of_the_prompts_and_do_not_depend_on_batch_mates(tiny_target: Path) -> None:
    alone, together = (
        list(answer(load_target(tiny_target, "cpu", "float32", rows, None), PROMPTS, tokens(tiny_target), 9))
        for rows in (1, 4)
    )
    assert alone == together
    assert [t.id for t in alone] == [p.id for p in PROMPTS]
    assert [t.category for t in alone] == [p.category for p in PROMPTS]
    assert all(1 <= len(t.response) <= t.max_tokens == 9 for t in alone if t.max_tokens)


def test_a_prompt_s_own_limit_holds_and_what_is_too_long_is_left_out(tiny_target: Path) -> None:
    prompts = [Prompt("short", prompt="ab", max_tokens=3), Prompt("long", prompt="ab" * 400)]
    (found,) = answer(load_target(tiny_target, "cpu", "float32", 2, None), prompts, tokens(tiny_target), 9)
    assert (found.id, found.max_tokens) == ("short", 3)


def test_weights_of_another_target_are_refused_in_words(tiny_target: Path, tmp_path: Path) -> None:
    engine = load_target(tiny_target, "cpu", "float32", 1, None)
    with pytest.raises(SpecbenchError, match="EAGLE-3 head"):
        load_profiler("eagle3", engine, tiny_target, tiny_target)
    with pytest.raises(SpecbenchError, match="cannot be profiled"):
        load_profiler("none", engine, tiny_target, tiny_target)
    with pytest.raises(SpecbenchError, match=r"has no config\.json"):
        load_target(tmp_path, "cpu", "float32", 1, None)
