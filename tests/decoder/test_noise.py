from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from specbench.decoder import noise

STREAMS = (noise.DRAFT, noise.ACCEPT, noise.RESIDUAL, noise.TARGET)
INT64 = st.integers(-(2**63), 2**63 - 1)
MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def splitmix64(counter: int) -> int:
    """The published algorithm in Python's unbounded integers."""
    z = counter & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def key(seed: int, position: int, stream: int) -> int:
    return splitmix64(splitmix64(seed + (stream + 1) * GOLDEN) + position * GOLDEN)


def grid(seeds: int, positions: int) -> tuple[Tensor, Tensor]:
    return torch.arange(seeds), torch.arange(positions).expand(seeds, -1)


def test_the_oracle_gives_the_published_splitmix64_sequence() -> None:
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [splitmix64(1234567 + n * GOLDEN) for n in range(1, 5)] == published


@given(seed=INT64, position=st.integers(0, 2**40), stream=st.sampled_from(STREAMS))
@settings(deadline=None)
def test_uniform_is_the_top_of_splitmix64_for_any_seed(seed: int, position: int, stream: int) -> None:
    expected = (splitmix64(key(seed, position, stream) + GOLDEN) >> 40) / 2**24
    assert noise.uniform(torch.tensor([seed]), torch.tensor([[position]]), stream).tolist() == [[expected]]


@given(seed=INT64, position=st.integers(0, 2**40), stream=st.sampled_from(STREAMS), vocab=st.integers(1, 9))
@settings(deadline=None)
def test_exponential_takes_two_tokens_from_each_word(seed: int, position: int, stream: int, vocab: int) -> None:
    words = [splitmix64(key(seed, position, stream) + n * GOLDEN) for n in range(1, 6)]
    halves = [half & 0x7FFFFFFF for word in words for half in (word, word >> 32)]
    actual = noise.exponential(torch.tensor([seed]), torch.tensor([[position]]), stream, vocab)
    below = -torch.expm1(-actual.double())  # P(E < actual), the uniform number behind it
    assert below.tolist()[0][0] == pytest.approx([(half + 0.5) / 2**31 for half in halves[:vocab]], rel=1e-6)


def test_uniform_is_uniform() -> None:
    for stream in STREAMS:
        sample = noise.uniform(*grid(400, 500), stream)
        assert sample.min() >= 0
        assert sample.max() < 1
        assert stats.kstest(sample.flatten().numpy(), "uniform").pvalue > 1e-4


def test_exponential_is_exponential_over_tokens_positions_and_seeds() -> None:
    for shape in ((1, 1, 200_000), (1, 40_000, 5), (40_000, 1, 5)):
        sample = noise.exponential(*grid(*shape[:2]), noise.TARGET, shape[2])
        assert sample.shape == shape
        assert stats.kstest(sample.flatten().numpy(), "expon").pvalue > 1e-4


@pytest.mark.parametrize("word", [0, -1], ids=["all bits clear", "all bits set"])
def test_exponential_is_positive_and_finite_at_both_ends(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_mix", lambda z: z.fill_(word))
    sample = noise.exponential(*grid(1, 1), noise.TARGET, 4)
    assert ((sample > 0) & (sample < 16.7)).all()


def test_the_smallest_noise_hardly_ever_ties() -> None:
    # The race is decided among the smallest values: on a grid of 2^-24 a third of these would share theirs.
    sample = noise.exponential(*grid(200, 1), noise.TARGET, 50_000)
    smallest = sample[sample < 1e-4]
    assert smallest.numel() > 800
    assert smallest.unique().numel() > 0.98 * smallest.numel()


def test_streams_positions_seeds_and_tokens_are_uncorrelated() -> None:
    sample = torch.stack([noise.exponential(*grid(100, 60), stream, 50) for stream in STREAMS])
    sample = (-sample).exp()  # uniform again: r of bounded numbers is nearly normal
    for a, b in itertools.combinations(range(len(STREAMS)), 2):
        assert correlation_z(sample[a], sample[b]) < 4.5
    for axis in (1, 2, 3):
        for lag in (1, 2, 3, 8):
            n = sample.shape[axis] - lag
            assert correlation_z(sample.narrow(axis, 0, n), sample.narrow(axis, lag, n)) < 4.5


def correlation_z(a: Tensor, b: Tensor) -> float:
    """|r| in its standard deviations under independence."""
    return float(abs(np.corrcoef(a.flatten().numpy(), b.flatten().numpy())[0, 1]) * a.numel() ** 0.5)


def test_neighbours_are_jointly_uniform() -> None:
    # Correlation sees lines only; this sees any dependence on a 16 x 16 grid, along every axis and across streams.
    sample = torch.stack([(-noise.exponential(*grid(100, 60), stream, 50)).exp() for stream in STREAMS])
    cells = (sample * 16).long().clamp_max(15)
    for axis in range(cells.ndim):
        even, odd = cells.unflatten(axis, (-1, 2)).unbind(axis + 1)
        counts = torch.bincount((even * 16 + odd).flatten(), minlength=256).numpy()
        assert stats.chisquare(counts).pvalue > 1e-4


def test_the_same_place_gives_the_same_number_whoever_else_is_in_the_batch() -> None:
    seeds = torch.tensor([5, -(2**63), 17, 2**63 - 1, 0])
    positions = torch.randint(0, 4096, (5, 3))
    together = noise.exponential(seeds, positions, noise.RESIDUAL, 1001)
    for row in (3, 0, 4):
        alone = noise.exponential(seeds[row : row + 1], positions[row : row + 1, 1:2], noise.RESIDUAL, 1001)
        assert torch.equal(alone[0, 0], together[row, 1])
    assert torch.equal(
        noise.uniform(seeds.flip(0), positions.flip(0), noise.ACCEPT).flip(0),
        noise.uniform(seeds, positions, noise.ACCEPT),
    )


def test_chunks_leave_no_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    place = (*grid(7, 5), noise.DRAFT, 33)
    whole = noise.exponential(*place)
    monkeypatch.setitem(noise._CHUNK, "cpu", 40)
    assert torch.equal(noise.exponential(*place), whole)


def test_a_token_s_noise_does_not_depend_on_the_size_of_the_vocabulary() -> None:
    large = noise.exponential(*grid(3, 2), noise.TARGET, 1000)
    for vocab in (1, 2, 501):
        assert torch.equal(noise.exponential(*grid(3, 2), noise.TARGET, vocab), large[..., :vocab])


def test_the_default_dtype_changes_nothing() -> None:
    before = noise.uniform(*grid(2, 2), noise.ACCEPT), noise.exponential(*grid(2, 2), noise.DRAFT, 5)
    torch.set_default_dtype(torch.float64)
    try:
        after = noise.uniform(*grid(2, 2), noise.ACCEPT), noise.exponential(*grid(2, 2), noise.DRAFT, 5)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(a.dtype == torch.float32 and torch.equal(a, b) for a, b in zip(after, before, strict=True))


def test_no_positions_give_no_numbers() -> None:
    assert noise.uniform(*grid(3, 0), noise.ACCEPT).shape == (3, 0)
    assert noise.exponential(*grid(3, 0), noise.DRAFT, 7).shape == (3, 0, 7)
