"""Made-up acceptance: the rate that was asked for, whatever the target thinks of the drafts, and the target's tokens
after them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specbench.decoder import verify
from specbench.decoder.load import load_engine
from specbench.decoder.rates import check_rates, parse_rates
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.decoder.synthetic import SyntheticAcceptance

CPU = torch.device("cpu")
ROWS = 40_000


def verdicts(rates: tuple[float, ...], gamma: int, draft: torch.Tensor | None = None) -> torch.Tensor:
    draft = torch.ones(ROWS, gamma, dtype=torch.int64) if draft is None else draft
    seeds, positions = torch.arange(ROWS), torch.arange(7, 8 + gamma).expand(ROWS, -1)
    return SyntheticAcceptance(rates, gamma, CPU).kept(draft, seeds, positions)


@given(gamma=st.integers(1, 6), data=st.data())
def test_each_position_is_kept_at_its_own_rate(gamma: int, data: st.DataObject) -> None:
    rate = st.floats(0, 1, allow_subnormal=False)
    rates = data.draw(st.one_of(st.tuples(rate), st.tuples(*[rate] * gamma)))
    accepted, everywhere = verdicts(rates, gamma), (*rates, *rates * gamma)[:gamma]
    for k, expected in enumerate(everywhere):
        reached = int((accepted >= k).sum())
        kept = int((accepted >= k + 1).sum())
        assert abs(kept - reached * expected) <= 6 * math.sqrt(reached * expected * (1 - expected)) + 1


def test_a_position_without_a_draft_is_never_kept() -> None:
    draft = torch.ones(ROWS, 3, dtype=torch.int64)
    draft[::2, 1:] = -1
    accepted = verdicts((1.0,), 3, draft)
    assert set(accepted[::2].tolist()) == {1}
    assert set(accepted[1::2].tolist()) == {3}


def test_the_verdict_is_the_same_for_the_same_seed_and_place() -> None:
    assert torch.equal(verdicts((0.5,), 4), verdicts((0.5,), 4))


@pytest.mark.parametrize("verification", ["greedy", "rejection", "coupled"])
def test_what_follows_is_the_targets_choice_at_the_place_of_the_verdict(verification: str) -> None:
    p = torch.eye(5)[torch.tensor([[0, 1, 2, 3]])]  # the target wants 0, 1, 2, 3
    draft, seeds, positions = torch.tensor([[4, 4, 4]]), torch.tensor([1]), torch.arange(4)[None]
    for kept in range(4):
        verdict = torch.tensor([kept])
        match verification:
            case "greedy":
                verified = verify.greedy(p.argmax(-1), draft, verdict)
            case "rejection":
                verified = verify.rejection(p, None, draft, seeds, positions, verdict)
            case _:
                verified = verify.coupled(p, draft, seeds, positions, verdict)
        assert (verified.accepted.item(), verified.next_token.item()) == (kept, kept)


@pytest.mark.parametrize(
    "params", [SamplingParams(temperature=0.0), SamplingParams(temperature=0.8)], ids=["greedy", "sampled"]
)
@pytest.mark.parametrize("verification", ["rejection", "coupled"])
def test_an_engine_accepts_at_the_rate_that_it_was_given(
    target: Path, pruned: Path, verification: Any, params: SamplingParams
) -> None:
    engine = load_engine(
        target,
        method="draft_model",
        gamma=3,
        drafter=pruned,
        verification=verification,
        acceptance="synthetic:0.9,0.5,0",
        max_batch_size=8,
        max_model_len=128,
    )
    for i in range(24):
        own = SamplingParams(temperature=params.temperature, seed=i, max_tokens=64, ignore_eos=True)
        engine.add(Request(str(i), list(b"prompt number %d" % i), own))
    while engine.has_work:
        engine.step()
    counters = engine.counters
    first, second, third = (kept / counters.steps for kept in counters.accepted_at)
    assert counters.drafted > 2.8 * counters.steps  # all of the work is done
    assert abs(first - 0.9) < 6 * math.sqrt(0.09 / counters.steps) + 0.02  # the end of an output cuts drafts short
    assert abs(second - 0.45) < 6 * math.sqrt(0.25 / counters.steps) + 0.02
    assert third == 0


@pytest.mark.parametrize(
    "text", ["0.8", "synthetic", "synthetic:", "synthetic:1.1", "synthetic:-0.1,0.5", "synthetic:x"]
)
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected synthetic:0\.8, or one rate per draft position"):
        parse_rates(text)


def test_rates_must_cover_the_draft() -> None:
    check_rates((0.8,), 7)
    check_rates((0.9, 0.7, 0.5), 3)
    with pytest.raises(ValueError, match="2 acceptance rates for drafts of 3 tokens"):
        check_rates((0.9, 0.7), 3)
