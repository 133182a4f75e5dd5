"""Log-probabilities before and after temperature, top-k and top-p."""

from __future__ import annotations

import math

import pytest
import torch

from specbench.decoder.logprobs import IMPOSSIBLE, logprobs
from specbench.decoder.sampling import SamplingParams

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0], [0.0, 0.0, 3.0, 0.0]])


def test_raw_ones_know_nothing_of_the_sampling() -> None:
    first, second = logprobs(LOGITS, [1, 2], 2, None)
    assert first.logprob == pytest.approx(LOGITS[0].log_softmax(-1)[1].item())
    assert [token for token, _ in first.top] == [0, 1]
    assert second.top[0][0] == 2


def test_processed_ones_are_those_of_the_distribution_that_is_sampled_from() -> None:
    (entry,) = logprobs(LOGITS[:1], [0], 4, SamplingParams(temperature=0.5, top_k=2))
    likely = (LOGITS[0, :2] / 0.5).softmax(-1)
    found = dict(entry.top)
    assert [math.exp(found[token]) for token in (0, 1)] == pytest.approx(likely.tolist(), rel=1e-5)
    assert found[2] == found[3] == IMPOSSIBLE
    assert sum(math.exp(value) for value in found.values()) == pytest.approx(1, abs=1e-6)


def test_greedy_ones_are_raw_in_either_mode() -> None:
    """vLLM's rule: a one-hot would say nothing of how near a tie was."""
    greedy = SamplingParams(temperature=0.0)
    assert logprobs(LOGITS, [0, 2], 3, greedy) == logprobs(LOGITS, [0, 2], 3, None)
