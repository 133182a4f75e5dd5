"""Outputs: a function of prompt and position alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specbench.simulated.scenario import Output
from specbench.simulated.tokens import EOS, OutputTokens, prompt_tokens, token_text


def output(prompt: str = "a prompt", seed: int | None = None, **settings: Any) -> OutputTokens:
    return OutputTokens(prompt_tokens(prompt), Output.model_validate(settings), seed)


def test_the_same_prompt_has_the_same_tokens_and_another_has_others() -> None:
    first, again, other = output(), output(), output("another prompt")
    assert [first.token(i) for i in range(40)] == [again.token(i) for i in range(40)]
    assert [first.token(i) for i in range(40)] != [other.token(i) for i in range(40)]


def test_a_sampled_output_depends_on_its_seed() -> None:
    assert [output(seed=1).token(i) for i in range(9)] != [output(seed=2).token(i) for i in range(9)]


def test_an_output_ends_with_the_end_of_sequence_unless_it_is_ignored() -> None:
    made = output(tokens=5)
    assert [made.token(i) == EOS for i in range(5)] == [False, False, False, False, True]
    assert made.token(4, ignore_eos=True) != EOS
    assert token_text(EOS) == ""


def test_lengths_are_log_normal_about_the_median() -> None:
    lengths = [output(f"prompt {i}", tokens=100, sigma=0.5).length for i in range(2_000)]
    logs = np.log([length for length in lengths if length is not None])
    assert np.median(logs) == pytest.approx(np.log(100), abs=0.05)
    assert np.std(logs) == pytest.approx(0.5, rel=0.1)
    assert output(ends=False).length is None


def test_some_prompts_loop_for_ever() -> None:
    outputs = [output(f"prompt {i}", degenerate={"share": 0.3, "period": 3}) for i in range(1_000)]
    looping = [o for o in outputs if o.is_degenerate]
    assert len(looping) / 1_000 == pytest.approx(0.3, abs=5 * (0.21 / 1_000) ** 0.5)
    assert all(o.length is None and o.token(30) == o.token(3) == o.token(0) != o.token(1) for o in looping)


def test_text_has_characters_of_one_to_four_bytes() -> None:
    text = "".join(token_text(t) for t in range(16, 100))
    assert {len(c.encode()) for c in text} == {1, 2, 3, 4}
