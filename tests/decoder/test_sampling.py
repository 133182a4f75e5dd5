from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from specbench.decoder import noise
from specbench.decoder.sampling import SamplingParams, Warp, draw, warp

ROWS = st.builds(
    SamplingParams,
    temperature=st.just(0.0) | st.floats(0.2, 3.0),
    top_k=st.sampled_from([0, 1, 5, 200, 10_000]),
    top_p=st.sampled_from([0.05, 0.5, 0.9, 0.999, 1.0]),
)


def normal_logits(rows: int, vocab: int, seed: int) -> Tensor:
    """Quantiles of the normal distribution in random order: no two are so near that rounding could make them equal."""
    generator = torch.Generator().manual_seed(seed)
    ranks = torch.stack([torch.randperm(vocab, generator=generator) for _ in range(rows)])
    return torch.special.ndtri((ranks.double() + 0.5) / vocab).float()


def transformers_probs(logits: Tensor, params: SamplingParams) -> tuple[Tensor, float]:
    # logits [w, V] -> [w, V], and how near the nucleus came to being one token longer or shorter
    if params.temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).float(), 1.0
    scores = TemperatureLogitsWarper(params.temperature)(None, logits)
    if params.top_k:
        scores = TopKLogitsWarper(params.top_k)(None, scores)
    if params.top_p == 1:
        return scores.softmax(-1), 1.0
    mass = scores.softmax(-1).double().sort(descending=True).values.cumsum(-1)
    return TopPLogitsWarper(params.top_p)(None, scores).softmax(-1), float((mass - params.top_p).abs().min())


@given(
    params=st.lists(ROWS, min_size=1, max_size=4),
    width=st.integers(1, 3),
    vocab=st.sampled_from([2, 30, 129, 3000]),
    spread=st.sampled_from([0.1, 2.0, 8.0]),
    seed=st.integers(0, 2**32),
)
@settings(deadline=None, max_examples=80)
def test_every_row_is_warped_as_transformers_would(
    params: list[SamplingParams], width: int, vocab: int, spread: float, seed: int
) -> None:
    logits = normal_logits(len(params) * width, vocab, seed).view(len(params), width, vocab) * spread
    probs = warp(logits, Warp.stack(params))
    assert probs.dtype == torch.float32
    for row, row_params in enumerate(params):
        expected, slack = transformers_probs(logits[row], row_params)
        assume(slack > 1e-5)  # nearer than rounding either nucleus is right
        torch.testing.assert_close(probs[row], expected, atol=2e-6, rtol=2e-5)
        assert torch.equal(probs[row] > 0, expected > 0)


@pytest.mark.parametrize("spread", [0.0, 0.05, 1.0, 6.0])
def test_a_nucleus_of_any_size_is_exact(spread: float) -> None:
    logits = torch.randn(2, 3, 20_000, generator=torch.Generator().manual_seed(1)) * spread
    probs = warp(logits, Warp.stack([SamplingParams(top_p=0.9), SamplingParams(top_p=0.3)]))
    for row, top_p in enumerate((0.9, 0.3)):
        full = logits[row].softmax(-1).double()
        ordered = full.sort(descending=True, stable=True).values
        last = ((ordered.cumsum(-1) - ordered) < top_p).sum(-1, keepdim=True) - 1
        kept = full >= ordered.gather(-1, last)
        assert torch.equal(probs[row] > 0, kept)
        assert torch.allclose(probs[row].double(), full * kept / (full * kept).sum(-1, keepdim=True), atol=1e-8)


def test_greedy_takes_the_lowest_id_among_equals() -> None:
    logits = torch.tensor([[[1.0, 3.0, 3.0, 2.0]]])
    assert warp(logits, Warp.stack([SamplingParams(temperature=0)])).tolist() == [[[0, 1, 0, 0]]]


def test_equals_at_the_edge_are_kept_together() -> None:
    logits = torch.tensor([0.4, 0.2, 0.2, 0.2]).log().view(1, 1, 4)
    for params in (SamplingParams(top_k=2), SamplingParams(top_p=0.5)):
        assert (warp(logits, Warp.stack([params])) > 0).all()


def test_a_tie_in_bfloat16_does_not_depend_on_where_it_stands() -> None:
    logits = torch.randn(1, 1, 3000, generator=torch.Generator().manual_seed(2)).bfloat16()
    order = torch.randperm(3000, generator=torch.Generator().manual_seed(3))
    rows = Warp.stack([SamplingParams(top_k=700, top_p=0.8)])
    kept = warp(logits, rows) > 0
    assert torch.equal(warp(logits[..., order], rows) > 0, kept[..., order])


@pytest.mark.parametrize("temperature", [1e-300, 1e-45, 1e-30, 1e-6])
def test_a_tiny_temperature_is_greedy_and_never_overflows(temperature: float) -> None:
    logits = torch.tensor([[[-80.0, 60.0, 90.0]]])
    assert warp(logits, Warp.stack([SamplingParams(temperature=temperature)])).tolist() == [[[0, 0, 1]]]


@settings(deadline=None)
@given(
    top_p=st.floats(0, 1, exclude_min=True) | st.sampled_from([1e-300, 1e-45, 1e-17, 1e-9]),
    top_k=st.integers(0, 2**70) | st.sampled_from([2**31, 2**63 - 1, 2**63]),
    temperature=st.sampled_from([1e-6, 1.0, 2.0]),
    seed=st.integers(0, 2**32),
)
def test_no_parameter_takes_the_most_likely_token_away(top_p: float, top_k: int, temperature: float, seed: int) -> None:
    logits = normal_logits(2, 300, seed)[None]
    probs = warp(logits, Warp.stack([SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p)]))
    assert (probs.gather(-1, logits.argmax(-1, keepdim=True)) > 0).all()
    torch.testing.assert_close(probs.sum(-1), torch.ones(1, 2))


@pytest.mark.parametrize("top_p", [1e-300, 1e-40, 1e-17])
def test_a_tiny_nucleus_is_the_most_likely_token(top_p: float) -> None:
    assert warp(torch.tensor([[[1.0, 3.0, 2.0]]]), Warp.stack([SamplingParams(top_p=top_p)])).tolist() == [[[0, 1, 0]]]


def test_a_token_that_the_model_forbids_stays_forbidden() -> None:
    logits = torch.tensor([[[0.0, -torch.inf, 0.0, -torch.inf]]])
    for params in (
        SamplingParams(),
        SamplingParams(top_k=3),
        SamplingParams(top_p=0.99),
        SamplingParams(temperature=9),
    ):
        assert warp(logits, Warp.stack([params])).tolist() == [[[0.5, 0, 0.5, 0]]]


def test_batch_mates_change_nothing() -> None:
    params = [SamplingParams(temperature=0.7, top_p=0.8), SamplingParams(temperature=0), SamplingParams(top_k=3)]
    logits = torch.randn(3, 2, 500, generator=torch.Generator().manual_seed(4))
    together = warp(logits, Warp.stack(params))
    for row, row_params in enumerate(params):
        assert torch.equal(warp(logits[row : row + 1], Warp.stack([row_params]))[0], together[row])


def test_all_greedy_says_whether_anything_is_sampled() -> None:
    greedy, sampled = SamplingParams(temperature=0, top_p=0.5), SamplingParams()
    assert Warp.stack([greedy, greedy]).all_greedy
    assert not Warp.stack([greedy, sampled]).all_greedy


def test_warp_reads_nothing_back_from_a_device() -> None:
    # A tensor on "meta" has no values, so a look at one raises: what runs there runs on a GPU without the host waiting.
    params = [SamplingParams(top_k=3, top_p=0.5), SamplingParams(temperature=0)]
    assert warp(torch.empty(2, 3, 50, device="meta"), Warp.stack(params, "meta")).shape == (2, 3, 50)


def test_a_draw_follows_the_probabilities_down_to_rare_tokens() -> None:
    vocab, draws = 400, 100_000
    probs = 1 / torch.arange(1.0, vocab + 1) ** 1.5  # the last: 5e-5; not normalised, which a race does not need
    seeds, positions = torch.arange(draws // 10), torch.arange(10).expand(draws // 10, -1)
    tokens = draw(probs, noise.exponential(seeds, positions, noise.TARGET, vocab))
    expected = (probs / probs.sum()).double().numpy()
    counts = np.bincount(tokens.flatten().numpy(), minlength=vocab)
    assert stats.chisquare(counts, draws * expected / expected.sum()).pvalue > 1e-4


def test_a_draw_never_takes_a_token_of_probability_zero() -> None:
    probs = torch.tensor([0.0, 1e-30, 0.0])
    tokens = draw(probs, noise.exponential(torch.arange(1000), torch.zeros(1000, 1).long(), noise.TARGET, 3))
    assert (tokens == 1).all()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"temperature": -0.1}, "temperature must be a finite number >= 0 (0 is greedy); got -0.1."),
        ({"temperature": float("nan")}, "temperature must be a finite number >= 0 (0 is greedy); got nan."),
        ({"temperature": float("inf")}, "temperature must be a finite number >= 0 (0 is greedy); got inf."),
        ({"top_k": -1}, "top_k must be >= 0; got -1. Use 0 to keep every token."),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1; got 0.0. Use 1 to keep every token."),
        ({"top_p": 1.5}, "top_p must be above 0 and at most 1; got 1.5. Use 1 to keep every token."),
        ({"seed": 2**63}, "seed must fit in a signed 64-bit integer; got 9223372036854775808."),
        ({"max_tokens": 0}, "max_tokens must be at least 1; got 0."),
        ({"stop_token_ids": (5, -2)}, "stop_token_ids must be >= 0; got [5, -2]."),
        ({"logprobs": -1}, "logprobs must be >= 0, or left out for none; got -1."),
    ],
)
def test_a_meaningless_parameter_is_refused_in_words(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        SamplingParams(**wrong)
