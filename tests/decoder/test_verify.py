"""The product's claim, by Monte Carlo: tokens decoded speculatively are distributed as the target's own.

A miniature of the engine's loop (`markov.py`) decodes Markov chains that can be enumerated. Verifiers with a planted
bug go through the same check, and must fail it.
"""

from __future__ import annotations

from collections.abc import Callable
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
    Verifier,
    binomial_fit,
    chain,
    decode,
    exact_joint,
    exactness,
    first_step,
    fit,
    itself,
    most_likely,
    nothing,
    only_draft,
    ragged,
    same_noise,
    sampled,
)
from torch import Tensor

from specbench.decoder import noise
from specbench.decoder.sampling import draw
from specbench.decoder.verify import Verified, block, coupled, greedy, rejection, typical

# --- exactness of the right verifiers -------------------------------------------------------------------------------

DRAFTERS = {
    "chain": chain,
    "ragged chain": partial(ragged, drafter=chain),
    "one-hot": most_likely,
    "ragged one-hot": partial(ragged, drafter=most_likely),
    "the target itself": itself,
    "nothing": nothing,
}


@pytest.mark.parametrize("gamma", [1, 2, 4])
@pytest.mark.parametrize("drafter", DRAFTERS.values(), ids=DRAFTERS)
def test_rejection_leaves_the_target_s_distribution_unchanged(drafter: Drafter, gamma: int) -> None:
    assert exactness(rejection, drafter, gamma) > PASSES


@pytest.mark.parametrize("gamma", [1, 3])
@pytest.mark.parametrize("drafter", [same_noise, partial(ragged, drafter=same_noise), most_likely, chain])
def test_coupled_leaves_the_target_s_distribution_unchanged(drafter: Drafter, gamma: int) -> None:
    assert exactness(only_draft(coupled), drafter, gamma) > PASSES


@pytest.mark.parametrize("verify", [rejection, only_draft(coupled)], ids=["rejection", "coupled"])
def test_the_first_two_tokens_are_within_half_a_percent_of_the_target(verify: Verifier) -> None:
    tokens = decode(verify, chain, 3, 2, torch.arange(ROWS))
    observed = torch.bincount(tokens[:, 0] * V + tokens[:, 1], minlength=V * V) / ROWS
    assert (observed - exact_joint(2).flatten()).abs().sum() / 2 < 0.005


# --- planted bugs ---------------------------------------------------------------------------------------------------


def textbook(
    p: Tensor,
    q: Tensor | None,
    draft: Tensor,
    seeds: Tensor,
    positions: Tensor,
    accepts: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda u, p, q: u < p / q,
    residual: Callable[[Tensor, Tensor], Tensor] = lambda p, q: (p - q).clamp_min(0),
    bonus: Callable[[Tensor, Tensor], Tensor] = lambda p, q: p,
    residual_stream: int = noise.RESIDUAL,
    accept_at: Callable[[Tensor], Tensor] = lambda positions: positions,
    keep: Callable[[Tensor], Tensor] = lambda ok: ok.long().cumprod(1),
    is_draft: Callable[[Tensor], Tensor] = lambda draft: draft >= 0,
) -> Verified:
    """Algorithm 1 once more, row by row in its structure, with a place for each bug."""
    assert q is not None
    rows, gamma = torch.arange(draft.shape[0]), draft.shape[1]
    at = draft.clamp_min(0)[..., None]
    u = noise.uniform(seeds, accept_at(positions[:, :-1]), noise.ACCEPT)
    ok = accepts(u, p[:, :-1].gather(2, at)[..., 0], q.gather(2, at)[..., 0]) & is_draft(draft)
    accepted = keep(ok).sum(1)
    ends = torch.cat([is_draft(draft), torch.zeros(draft.shape[0], 1, dtype=torch.bool)], 1)
    p_there, q_there = p[rows, accepted], q[rows, accepted.clamp_max(gamma - 1)]
    there = residual(p_there, q_there).where(ends[rows, accepted][:, None], bonus(p_there, q_there))
    there = there.where(there.sum(1, keepdim=True) > 0, p_there)
    e = noise.exponential(seeds, positions[rows, accepted][:, None], residual_stream, V)[:, 0]
    return Verified(accepted, draw(there, e))


def drops_unlikely(p: Tensor, q: Tensor, draft: Tensor, seeds: Tensor, positions: Tensor, after: int) -> Verified:
    """End the draft at the first token whose q is below 0.25: before it (after=0) or after it (after=1)."""
    unlikely = q.gather(2, draft[..., None])[..., 0] < 0.25
    earlier = unlikely.long().cumsum(1) - (unlikely.long() if after else 0)
    return rejection(p, q, draft.where(earlier == 0, -1), seeds, positions)


BUGS: dict[str, Verifier] = {
    "the residual reuses the draft's noise": partial(textbook, residual_stream=noise.DRAFT),
    "a sampled token is dropped because its q is low": partial(drops_unlikely, after=0),
    "the residual is the target": partial(textbook, residual=lambda p, q: p),
    "the residual is (q - p)+": partial(textbook, residual=lambda p, q: (q - p).clamp_min(0)),
    "the residual is |p - q|": partial(textbook, residual=lambda p, q: (p - q).abs()),
    "the acceptance ratio is upside down": partial(textbook, accepts=lambda u, p, q: u < q / p),
    "everything is accepted": partial(textbook, accepts=lambda u, p, q: u < 2),
    "acceptance compares u with p alone": partial(textbook, accepts=lambda u, p, q: u < p),
    "the bonus is the drafter's": partial(textbook, bonus=lambda p, q: q),
    "q ignores the drafter's temperature": lambda p, q, *rest: rejection(p, (q.log() / 0.5).softmax(-1), *rest),
    "one u serves the whole draft": partial(textbook, accept_at=lambda positions: positions * 0),
    "the draft's tokens are tested by its own noise": lambda p, q, draft, seeds, positions: textbook(
        p, q, draft, seeds, positions, accepts=lambda u, p, q: torch.exp(-own_noise(draft, seeds, positions)) < p / q
    ),
    "tokens after a rejection count": partial(textbook, keep=lambda ok: ok.long()),
}


def own_noise(draft: Tensor, seeds: Tensor, positions: Tensor) -> Tensor:
    return noise.exponential(seeds, positions[:, :-1], noise.DRAFT, V).gather(2, draft[..., None])[..., 0]


def test_the_textbook_passes_where_its_bugs_fail() -> None:
    assert exactness(textbook, chain, 2) > PASSES
    assert exactness(textbook, partial(ragged, drafter=chain), 2) > PASSES


@pytest.mark.parametrize("verify", BUGS.values(), ids=BUGS)
def test_the_check_finds_a_planted_bug(verify: Verifier) -> None:
    assert exactness(verify, chain, 2) < FAILS


def test_the_check_finds_a_minus_one_taken_for_a_token() -> None:
    takes_any: Verifier = partial(textbook, is_draft=lambda draft: draft >= -1)
    assert exactness(takes_any, partial(ragged, drafter=chain), 2) < FAILS


def test_ending_a_draft_after_an_unlikely_token_is_allowed() -> None:
    assert exactness(partial(drops_unlikely, after=1), chain, 3) > PASSES


def test_taking_a_sampled_draft_for_a_one_hot_is_exact_but_accepts_less() -> None:
    def ignores_q(p: Tensor, q: Tensor | None, draft: Tensor, seeds: Tensor, positions: Tensor) -> Verified:
        return rejection(p, None, draft, seeds, positions)

    assert exactness(ignores_q, chain, 2) > PASSES
    verified, _ = first_step(ignores_q, chain, 1)
    assert binomial_fit(int(verified.accepted.sum()), ROWS, (TARGET[START] @ DRAFTER[START]).item()) > PASSES


def redraws(p: Tensor, draft: Tensor, seeds: Tensor, positions: Tensor) -> Verified:
    """Coupled verification with a residual, as if it were rejection sampling."""
    verified = coupled(p, draft, seeds, positions)
    rows, at = torch.arange(draft.shape[0]), verified.accepted.clamp_max(draft.shape[1] - 1)
    rejected = verified.accepted < draft.shape[1]
    left = p[rows, verified.accepted].scatter(1, draft[rows, at][:, None], 0.0)
    e = noise.exponential(seeds, positions[rows, verified.accepted][:, None], noise.RESIDUAL, V)[:, 0]
    return Verified(verified.accepted, draw(left, e).where(rejected, verified.next_token))


COUPLED_BUGS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Verified]] = {
    "a rejected token is drawn again": redraws,
    "every position has the same noise": lambda p, draft, seeds, positions: coupled(p, draft, seeds, positions * 0),
    "every row has the same noise": lambda p, draft, seeds, positions: coupled(p, draft, seeds * 0, positions),
    "the drafter's choice is emitted": lambda p, draft, seeds, positions: Verified(
        torch.zeros_like(seeds), draft[:, 0]
    ),
}


@pytest.mark.parametrize("verify", COUPLED_BUGS.values(), ids=COUPLED_BUGS)
def test_the_check_finds_a_bug_planted_in_coupled_verification(
    verify: Callable[[Tensor, Tensor, Tensor, Tensor], Verified],
) -> None:
    assert exactness(only_draft(verify), same_noise, 2) < FAILS


# --- acceptance -----------------------------------------------------------------------------------------------------


def test_rejection_accepts_with_probability_one_minus_tv() -> None:
    verified, emitted = first_step(rejection, chain, 2)
    overlap = torch.minimum(TARGET, DRAFTER).double()
    assert binomial_fit(int((verified.accepted >= 1).sum()), ROWS, overlap[START].sum().item()) > PASSES
    # The second token is tested only after the first was kept, which is token v with probability min(p, q)(v).
    assert binomial_fit(int((verified.accepted == 2).sum()), ROWS, (overlap[START] @ overlap.sum(1)).item()) > PASSES
    assert fit(emitted[verified.accepted >= 1, 0], overlap[START] / overlap[START].sum()) > PASSES


def test_a_one_hot_draft_is_accepted_with_the_target_s_probability() -> None:
    token = DRAFTER[START].argmax()
    for verify in (rejection, only_draft(coupled)):
        verified, _ = first_step(verify, most_likely, 1)
        assert binomial_fit(int(verified.accepted.sum()), ROWS, TARGET[START, token].double().item()) > PASSES


def test_the_bonus_after_a_draft_kept_whole_is_the_target_s() -> None:
    verified, emitted = first_step(rejection, chain, 2)
    for last in range(V):
        bonus = verified.next_token[(verified.accepted == 2) & (emitted[:, 1] == last)]
        assert bonus.numel() == 0 or fit(bonus, TARGET[last]) > PASSES


def test_the_target_as_its_own_drafter_is_always_accepted() -> None:
    for verify, drafter in (
        (rejection, itself),
        (only_draft(coupled), partial(sampled, table=TARGET, stream=noise.TARGET)),
    ):
        verified, _ = first_step(verify, drafter, 3)
        assert (verified.accepted == 3).all()


def test_coupled_acceptance_lies_between_its_bounds() -> None:
    generator = torch.Generator().manual_seed(7)
    rows, positions = 20_000, torch.zeros(20_000, 1).long()
    e = noise.exponential(torch.arange(rows), positions, noise.TARGET, 20)[:, 0]
    for sharpness in (0.3, 1.0, 3.0):
        p, q = (torch.randn(2, 20, generator=generator) * sharpness).softmax(-1)
        verified = coupled(p.expand(rows, 2, 20), draw(q, e)[:, None], torch.arange(rows), positions.expand(-1, 2))
        rate, tv = verified.accepted.double().mean().item(), (p - q).abs().sum().item() / 2
        slack = 4 * (0.25 / rows) ** 0.5
        assert (1 - tv) / (1 + tv) - slack < rate < 1 - tv + slack


def test_a_drafter_with_noise_of_its_own_agrees_by_chance_only() -> None:
    verified, _ = first_step(only_draft(coupled), chain, 1)
    assert binomial_fit(int(verified.accepted.sum()), ROWS, (TARGET[START] @ DRAFTER[START]).item()) > PASSES


# --- seeded equality ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [1, 2, 3, 5])
@pytest.mark.parametrize("drafter", [*DRAFTERS.values(), same_noise], ids=[*DRAFTERS, "chain with the target's noise"])
def test_coupled_gives_a_seed_the_same_tokens_under_every_drafter_and_gamma(drafter: Drafter, gamma: int) -> None:
    seeds = torch.arange(-500, 500)
    plain = decode(only_draft(coupled), nothing, 0, 20, seeds)
    assert torch.equal(decode(only_draft(coupled), drafter, gamma, 20, seeds), plain)


def test_plain_decoding_draws_from_the_verifier_s_own_stream() -> None:
    seeds, positions = torch.arange(1000), torch.full((1000, 1), 42)
    p, draft = TARGET[seeds % V][:, None], torch.empty(1000, 0, dtype=torch.int64)
    for verify, stream in ((rejection, noise.RESIDUAL), (only_draft(coupled), noise.TARGET)):
        for q in (None, torch.empty(1000, 0, V)):
            verified = verify(p, q, draft, seeds, positions)
            assert torch.equal(verified.accepted, torch.zeros(1000, dtype=torch.int64))
            assert torch.equal(verified.next_token, draw(p, noise.exponential(seeds, positions, stream, V))[:, 0])


# --- single steps ---------------------------------------------------------------------------------------------------


@given(
    rows=st.integers(1, 4),
    gamma=st.integers(0, 4),
    data=st.data(),
)
@settings(deadline=None)
def test_greedy_keeps_exactly_the_common_prefix(rows: int, gamma: int, data: st.DataObject) -> None:
    def ids(low: int, width: int) -> list[list[int]]:
        return data.draw(
            st.lists(st.lists(st.integers(low, 2), min_size=width, max_size=width), min_size=rows, max_size=rows)
        )

    target, draft = ids(0, gamma + 1), ids(-1, gamma)
    verified = greedy(torch.tensor(target), torch.tensor(draft, dtype=torch.int64).view(rows, gamma))
    for row in range(rows):
        common = 0
        while common < gamma and draft[row][common] == target[row][common]:
            common += 1
        assert verified.accepted[row] == common
        assert verified.next_token[row] == target[row][common]


@given(seed=st.integers(0, 2**32), gamma=st.integers(1, 4), one_hot=st.booleans())
@settings(deadline=None)
def test_batch_mates_change_nothing(seed: int, gamma: int, one_hot: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    p = (torch.randn(6, gamma + 1, 11, generator=generator) * 3).softmax(-1)
    q = None if one_hot else (torch.randn(6, gamma, 11, generator=generator) * 3).softmax(-1)
    draft = torch.randint(-1, 11, (6, gamma), generator=generator)
    seeds = torch.randint(-(2**63), 2**63 - 1, (6,), generator=generator)
    positions = torch.randint(0, 1000, (6, 1), generator=generator) + torch.arange(gamma + 1)
    together = rejection(p, q, draft, seeds, positions)
    for row in range(6):
        part = slice(row, row + 1)
        alone = rejection(p[part], None if q is None else q[part], draft[part], seeds[part], positions[part])
        assert alone.accepted == together.accepted[row]
        assert alone.next_token == together.next_token[row]


@given(seed=st.integers(0, 2**32), gamma=st.integers(1, 4))
@settings(deadline=None)
def test_rejection_of_one_hot_targets_is_greedy(seed: int, gamma: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, 3, (8, gamma + 1), generator=generator)
    draft = torch.randint(-1, 3, (8, gamma), generator=generator)
    p = torch.nn.functional.one_hot(target, 3).float()
    q = torch.nn.functional.one_hot(draft.clamp_min(0), 3).float()
    expected = greedy(target, draft)
    for distributions in (q, None):
        verified = rejection(p, distributions, draft, torch.arange(8), torch.arange(gamma + 1).expand(8, -1))
        assert torch.equal(verified.accepted, expected.accepted)
        assert torch.equal(verified.next_token, expected.next_token)


def test_what_stands_past_the_end_of_a_draft_is_never_read() -> None:
    p = TARGET[:4].repeat(250, 1, 1)  # [250, 4, V]: γ = 3
    draft = torch.tensor([[1, -1, 2]]).expand(250, -1)
    seeds, positions = torch.arange(250), torch.arange(4).expand(250, -1)
    q = DRAFTER[:3].repeat(250, 1, 1)
    clean = rejection(p, q, draft, seeds, positions)
    p[:, 2:], q[:, 1:] = torch.nan, torch.nan
    dirty = rejection(p, q, draft, seeds, positions)
    assert clean.accepted.max() == 1
    assert torch.equal(clean.accepted, dirty.accepted)
    assert torch.equal(clean.next_token, dirty.next_token)


def test_where_nothing_is_left_of_the_residual_the_target_decides() -> None:
    # p equals q, yet the drafted token is impossible under both: a drafter that broke its own word.
    p = torch.tensor([[[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]]]).expand(1000, -1, -1)
    draft, seeds = torch.full((1000, 1), 1), torch.arange(1000)
    verified = rejection(p, p[:, :1], draft, seeds, torch.arange(2).expand(1000, -1))
    assert (verified.accepted == 0).all()
    assert fit(verified.next_token, p[0, 0]) > PASSES


def test_no_verifier_reads_anything_back_from_a_device() -> None:
    # A tensor on "meta" has no values, so a look at one raises: what runs there runs on a GPU without the host waiting.
    def on_meta(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    p, q = on_meta(2, 4, V, dtype=torch.float32), on_meta(2, 3, V, dtype=torch.float32)
    draft, seeds, positions = on_meta(2, 3), on_meta(2), on_meta(2, 4)
    for verified in (
        rejection(p, q, draft, seeds, positions),
        rejection(p, None, draft, seeds, positions),
        block(p, q, draft, seeds, positions),
        block(p, None, draft, seeds, positions),
        typical(p, draft, seeds, positions),
        coupled(p, draft, seeds, positions),
        greedy(positions, draft),
    ):
        assert verified.accepted.shape == verified.next_token.shape == (2,)
