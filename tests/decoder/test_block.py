"""Block verification leaves the target's distribution unchanged, and keeps as much as the paper says: never less than
token-wise rejection."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from markov import (
    DRAFTER,
    FAILS,
    PASSES,
    ROWS,
    START,
    TARGET,
    Drafter,
    V,
    binomial_fit,
    chain,
    exactness,
    first_step,
    most_likely,
    nothing,
    ragged,
    sampled,
)
from torch import Tensor

from specbench.decoder import noise
from specbench.decoder.sampling import draw
from specbench.decoder.verify import block, greedy, rejection


def fresh(last: Tensor, seeds: Tensor, positions: Tensor, table: Tensor = DRAFTER) -> tuple[Tensor, Tensor]:
    """A chain drawn with new noise at every step, as `Batch.draft_noise` gives it."""
    return sampled(last, noise.fork(seeds, positions[:, 0], noise.BLOCK), positions, table, noise.DRAFT)


def ends_when_unsure(last: Tensor, seeds: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """A draft ends after a token that its own drafter gave little."""
    draft, q = fresh(last, seeds, positions)
    unsure = (q.gather(2, draft[..., None])[..., 0] < 0.25).long()
    return draft.where(unsure.cumsum(1) - unsure == 0, -1), q


@pytest.mark.parametrize(
    ("drafter", "gamma"),
    [
        (fresh, 1),
        (fresh, 3),
        (partial(ragged, drafter=fresh), 3),
        (ends_when_unsure, 3),
        (most_likely, 2),
        (partial(ragged, drafter=most_likely), 3),
    ],
)
def test_the_targets_distribution_is_unchanged(drafter: Drafter, gamma: int) -> None:
    assert exactness(block, drafter, gamma, length=4) > PASSES


def test_a_drafter_that_draws_again_with_the_noise_of_a_rejected_token_is_found_out() -> None:
    assert exactness(block, chain, 3, length=4) < FAILS


def kept_at_least(gamma: int, capped: bool) -> list[float]:
    """P(at least i tokens are kept), i = 1..gamma: the mean of w_i over drafts.

    capped: each ratio by itself, as token-wise rejection has it
    """
    found = []
    for length in range(1, gamma + 1):
        total = 0.0
        for draft in itertools.product(range(V), repeat=length):
            drawn, weight, last = 1.0, 1.0, START
            for token in draft:
                p, q = TARGET[last, token].item(), DRAFTER[last, token].item()
                ratio = p / q if q else 0.0
                drawn, weight, last = drawn * q, min(1.0, weight * (min(1.0, ratio) if capped else ratio)), token
            total += drawn * weight
        found.append(total)
    return found


def test_as_many_tokens_are_kept_as_the_paper_says_and_more_than_by_rejection() -> None:
    gamma = 4
    for verify, capped in ((block, False), (rejection, True)):
        accepted = first_step(verify, fresh, gamma)[0].accepted
        for least, probability in enumerate(kept_at_least(gamma, capped), start=1):
            assert binomial_fit(int((accepted >= least).sum()), ROWS, probability) > PASSES
    assert all(b >= r for b, r in zip(kept_at_least(gamma, False), kept_at_least(gamma, True), strict=True))
    assert sum(kept_at_least(gamma, False)) > sum(kept_at_least(gamma, True)) + 0.02


def test_the_target_as_its_own_drafter_is_always_accepted() -> None:
    assert (first_step(block, partial(fresh, table=TARGET), 3)[0].accepted == 3).all()


def test_plain_decoding_is_that_of_rejection() -> None:
    one, other = (first_step(verify, nothing, 0)[0] for verify in (block, rejection))
    assert torch.equal(one.next_token, other.next_token)


@given(seed=st.integers(0, 2**32), gamma=st.integers(1, 4))
@settings(deadline=None)
def test_of_one_hot_targets_it_is_greedy(seed: int, gamma: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, 3, (8, gamma + 1), generator=generator)
    draft = torch.randint(-1, 3, (8, gamma), generator=generator)
    draft = draft.where((draft >= 0).long().cumprod(1) == 1, -1)
    p = torch.nn.functional.one_hot(target, 3).float()
    q = torch.nn.functional.one_hot(draft.clamp_min(0), 3).float()
    expected = greedy(target, draft)
    for distributions in (q, None):
        verified = block(p, distributions, draft, torch.arange(8), torch.arange(gamma + 1).expand(8, -1))
        assert torch.equal(verified.accepted, expected.accepted)
        assert torch.equal(verified.next_token, expected.next_token)


@given(seed=st.integers(0, 2**32), gamma=st.integers(1, 4), one_hot=st.booleans())
@settings(deadline=None)
def test_batch_mates_and_what_stands_past_the_end_of_a_draft_change_nothing(
    seed: int, gamma: int, one_hot: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    p = (torch.randn(6, gamma + 1, 11, generator=generator) * 3).softmax(-1)
    q = (torch.randn(6, gamma, 11, generator=generator) * 3).softmax(-1)
    draft = draw(q, torch.rand(q.shape, generator=generator).log().neg())
    lengths = torch.randint(0, gamma + 1, (6, 1), generator=generator)
    draft = draft.where(torch.arange(gamma) < lengths, -1)
    seeds = torch.randint(-(2**63), 2**63 - 1, (6,), generator=generator)
    positions = torch.randint(0, 1000, (6, 1), generator=generator) + torch.arange(gamma + 1)
    together = block(p, None if one_hot else q, draft, seeds, positions)
    p = p.masked_fill((torch.arange(gamma + 1) > lengths)[..., None], torch.nan)
    q = q.masked_fill((draft < 0)[..., None], torch.nan)
    for row in range(6):
        part = slice(row, row + 1)
        alone = block(p[part], None if one_hot else q[part], draft[part], seeds[part], positions[part])
        assert alone.accepted == together.accepted[row] <= lengths[row]
        assert alone.next_token == together.next_token[row]
