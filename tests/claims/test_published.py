"""The table of published claims: each row's verdict, and the figures that it rests on, come out of the checks."""

from __future__ import annotations

import pytest

from specbench.claims.finding import Finding
from specbench.claims.published import Judgement, judge, published_claims

VERDICTS = {
    "H200 at $3.10/h, 38 tokens/s": "impossible",
    "H200 at $3.10/h: 91 tokens/s": "impossible",
    "Cost falls by 53 %": "inconsistent",
    "Cost falls by 38 %": "consistent",
    "Throughput rises 11.05 times": "inconsistent",
    "Breaks even at 10 B tokens a month": "impossible",
    "A 405B model on one H200": "impossible",
    "405B in FP8 on H200": "consistent",
    "2.31 times on Llama 70B": "consistent",
    "EAGLE-3 2.89 times at acceptance 0.81": "consistent",
    "2.89 times drops to 1.25": "inconsistent",
    "From batch 64 on": "inconsistent",
    "An acceptance below 50 % loses": "inconsistent",
    "A GPU peaks at an arithmetic intensity above 50": "inconsistent",
    "The drafter's KV cache doubles": "inconsistent",
    "70B with AWQ INT4": "impossible",
    "70B in FP8 on one H200": "impossible",
    "Speculative speculative decoding (SSD)": "inconsistent",
    "25 of 440 rows": "impossible",
    "SWIFT 1.3 to 1.6 times": "consistent",
}


def judgement(beginning: str) -> Judgement:
    (published,) = (p for p in published_claims() if p.claim.startswith(beginning))
    return judge(published)


def findings(beginning: str, about: str) -> list[Finding]:
    return [f for report in judgement(beginning).reports for f in report.findings if f.about == about]


def computed(beginning: str, about: str) -> list[float]:
    return [f.computed.value for f in findings(beginning, about) if f.computed is not None]


def test_every_claim_is_in_this_list() -> None:
    claims = [p.claim for p in published_claims()]
    assert len(claims) == len(VERDICTS)
    assert all(sum(claim.startswith(beginning) for beginning in VERDICTS) == 1 for claim in claims)


@pytest.mark.parametrize("beginning", VERDICTS)
def test_the_checks_reach_the_verdict(beginning: str) -> None:
    judged = judgement(beginning)
    assert judged.verdict == judged.published.verdict == VERDICTS[beginning]
    assert all(report.verdict == judged.verdict for report in judged.reports)


def test_what_no_arithmetic_decides_says_so() -> None:
    by = {p.claim: (p.by, bool(p.inputs)) for p in published_claims()}
    assert set(by.values()) == {("arithmetic", True), ("source", False)}
    read = [claim for claim, (way, _) in by.items() if way == "source"]
    assert {claim.split()[0] for claim in read} == {"2.31", "Speculative", "25", "SWIFT"}


def test_citations_are_held_against_their_sources() -> None:
    about = "speedup against its source"
    assert computed("2.89 times drops", about) == [1.70]
    assert computed("From batch 64 on", about) == [1.38, 2.51]


def test_the_costs_are_119_times_off_and_alike() -> None:
    about = "cost of a million output tokens"
    (first,) = findings("H200 at $3.10/h, 38", about)
    assert first.computed is not None
    assert first.computed.value == pytest.approx(22.66, abs=0.005)
    assert first.working[1] == "claimed 0.19: 119 times too low"
    assert first.true_if[0] == "4,532 tokens per second"
    assert computed("H200 at $3.10/h: 91", about) == pytest.approx([9.46, 2.05, 1.28], abs=0.005)


def test_the_changes_of_cost() -> None:
    about = "change of the cost, from throughput"
    assert computed("Cost falls by 53 %", about) == pytest.approx([-0.582], abs=5e-4)
    assert computed("Cost falls by 38 %", about) == pytest.approx([-0.375], abs=5e-4)
    (fall,) = findings("Throughput rises", "fall of the cost")
    assert fall.computed is not None
    assert fall.claimed is not None
    assert (fall.computed.value, fall.claimed.value) == pytest.approx((11.05, 2.4), abs=0.03)


def test_the_break_even_pays_for_a_week_of_an_engineer_and_not_for_one_gpu() -> None:
    beginning = "Breaks even"
    (room,) = findings(beginning, "engineering that pays back")
    assert room.working == ("1,000 a month pay for 923.1 to 1,385 of engineering in 4 to 6 weeks",)
    assert computed(beginning, "replicas")[1:] == [101, 10]
    rate = findings(beginning, "replicas")[1].working[0]
    assert "= 3,805 tokens/s" in rate
    bills = findings(beginning, "bill against rent")
    assert all("1 H200 for one month: 2,263" in bill.working[1] for bill in bills)
    assert all(bill.claimed is not None and bill.claimed.value < 2263 for bill in bills)


def test_405_b_needs_three_h200() -> None:
    beginning = "A 405B model on one H200"
    (weights,) = findings(beginning, "weights in the memory")
    assert weights.claimed is not None
    assert weights.claimed.value == 405e9
    assert weights.true_if[0] == "3 GPUs"
    assert computed(beginning, "memory roof") == pytest.approx([11.9], abs=0.05)


def test_nvidia_s_405_b_adds_up() -> None:
    beginning = "405B in FP8"
    assert computed(beginning, "speedup, from throughput") == pytest.approx([3.61], abs=0.005)
    assert computed(beginning, "cost of a million output tokens without speculation") == pytest.approx([103], abs=0.5)
    assert computed(beginning, "cost of a million output tokens") == pytest.approx([28.5], abs=0.05)


def test_each_of_the_four_speedups_lies_between_gamma_4_and_8() -> None:
    found = findings("EAGLE-3 2.89", "speedup against acceptance")
    assert len(found) == 4
    for f in found:
        assert f.computed is not None
        assert f.claimed is not None
        assert f.computed.low <= f.claimed.value <= f.computed.high


def test_break_even_acceptance_is_far_from_50_percent() -> None:
    found = computed("An acceptance below", "acceptance at which speculation breaks even")
    assert found == pytest.approx([0.05, 0.13, 0.20, 0.29, 0.29], abs=0.006)


def test_the_ridge_and_the_intensity_of_decoding() -> None:
    beginning = "A GPU peaks"
    assert computed(beginning, "ridge") == pytest.approx([295, 206], abs=0.5)
    assert computed(beginning, "arithmetic intensity of decoding") == [1]


def test_the_drafter_s_cache_is_1_to_40_percent() -> None:
    found = computed("The drafter's KV", "KV cache of the drafter")
    assert found == pytest.approx([0.10, 0.0125, 0.03125, 0.25, 0.40])


def test_the_hardware_that_cannot() -> None:
    (weights,) = findings("70B with AWQ", "weights in the memory")
    assert weights.working[0] == "weights: 70 B parameters × 4 bit = 35 GB"
    assert "24 GiB" in weights.working[1]
    roofs = findings("70B in FP8", "memory roof")
    assert [round(f.computed.value) for f in roofs if f.verdict is None and f.computed] == [69]
