"""Which contexts have power, what seeds fix, and which check decides."""

from __future__ import annotations

import pytest

from specbench.equivalence.greedy import Equivalence, NoiseFloor
from specbench.equivalence.sampling.observations import Draw
from specbench.equivalence.sampling.verdict import SamplingVerdict
from specbench.errors import SpecbenchError
from specbench.replay.records import RequestAcceptance, RequestTrace
from specbench.sweep.config import SweepConfig
from specbench.verification.contexts import has_power
from specbench.verification.drawing import draws_of, requests_at
from specbench.verification.greedy import GreedyCheck
from specbench.verification.result import EXIT_CODES, Verification
from specbench.verification.seeds import SeedRuns, Seeds, compare_seeds
from specbench.verification.settings import DEFAULTS, PROMPTS, Effort
from specbench.workloads.load import load_workload

CONFIG = SweepConfig.model_validate(DEFAULTS)


def trace(index: int, tokens: tuple[int, ...], **changed: object) -> RequestTrace:
    fields: dict[str, object] = dict.fromkeys(RequestTrace.__dataclass_fields__)
    fields |= {"index": index, "token_ids": tokens, "output_tokens": len(tokens), "prompt_id": str(index)}
    return RequestTrace(**{**fields, **changed})  # type: ignore[arg-type]


class TestContexts:
    def test_drafts_must_come_and_some_must_be_rejected(self) -> None:
        assert has_power([Draw(0, (1, 2), ((1, 0),)), Draw(0, (1, 2, 3), ((1, 1),))])
        assert not has_power([Draw(0, (1, 2, 3), ((1, 1),))] * 20)  # everything is accepted
        assert not has_power([Draw(0, (1, 2), ((0, 0),))] * 20)  # nothing is drafted

    def test_an_engine_that_does_not_say_is_given_the_benefit_of_the_doubt(self) -> None:
        assert has_power([Draw(0, (1, 2))])

    def test_the_own_prompts_are_a_workload(self) -> None:
        assert len(load_workload(PROMPTS).prompts) == 24


class TestDrawing:
    def test_no_two_draws_share_a_seed_in_a_set_or_between_sets(self) -> None:
        sets = [requests_at([(1,), (2,)], 50, 4, CONFIG, number) for number in range(3)]
        seeds = [request.seed for requests in sets for request in requests]
        assert len(set(seeds)) == len(seeds) == 300

    def test_failed_requests_are_left_out_and_steps_are_kept(self) -> None:
        told = RequestAcceptance(2, 2, 1, (1, 1), (1, 0))
        (draw,) = draws_of([trace(0, (5, 6, 7, 8), acceptance=told), trace(1, (5,), error="gone")], first_context=4)
        assert draw == Draw(4, (5, 6, 7, 8), ((1, 1), (1, 0)))
        assert draw.bonuses() == (2,)


def test_seeds_are_counted_request_by_request() -> None:
    baseline = SeedRuns(((1, 2), (3,)), ((1, 2), (3,)), ((1, 2), (4,)))
    arm = SeedRuns(((1, 2), (9,)), ((1, 2), None), ((0,), (9,)))
    found = compare_seeds(baseline, {"ngram-g1": arm})
    assert found == {"none": Seeds(2, 2, 1, None), "ngram-g1": Seeds(2, 1, 1, 1)}
    assert found["ngram-g1"].sentence() == (
        "1 of 2 identical when run again, 1 of 2 at batch size 1, 1 of 2 as without speculation"
    )


def verification(greedy: str = "EXACT", sampled: str | None = "EQUIVALENT", as_baseline: int = 8) -> Verification:
    verdict = None if sampled is None else SamplingVerdict(sampled, 1e-3, {}, "", 0.05)  # type: ignore[arg-type]
    arm = Equivalence(greedy, 1, 1, (), (), "")  # type: ignore[arg-type]
    return Verification(
        settings={},
        engine="an engine",
        notes=(),
        greedy=GreedyCheck({"a": arm}, NoiseFloor(0, 0), None),
        sampling=verdict,
        control=None,
        acceptance={},
        seeds={"a": Seeds(8, 8, 8, as_baseline)},
        seeds_promised=True,
    )


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, 0),
        ({"greedy": "NEAR_TIE"}, 0),
        ({"sampled": None}, 0),
        ({"greedy": "DIVERGENT"}, 3),
        ({"sampled": "NOT EQUIVALENT"}, 3),
        ({"as_baseline": 7}, 3),  # coupled verification promises the baseline's tokens
        ({"sampled": "INCONCLUSIVE"}, 4),
        ({"greedy": "NOT_CHECKED"}, 4),
        ({"greedy": "DIVERGENT", "sampled": "INCONCLUSIVE"}, 3),
    ],
)
def test_the_worst_check_decides(changed: dict[str, object], code: int) -> None:
    assert EXIT_CODES[verification(**changed).outcome] == code  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"draws": 0}, {"level": 0.0}, {"find_tv": 1.5}])
def test_an_effort_that_means_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SpecbenchError, match="--"):
        Effort(**wrong)  # type: ignore[arg-type]
