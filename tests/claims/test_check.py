"""A claim's figures give a verdict, the working and what would make it true."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.claims.arithmetic import cost_per_million, expected_length, modelled_speedup
from specbench.claims.check import Report, check
from specbench.claims.claim import INPUTS, read_claim
from specbench.claims.finding import Finding
from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import catalogue


def checked(**inputs: object) -> Report:
    return check(read_claim(inputs, catalogue()))


def finding(report: Report, about: str) -> Finding:
    return next(f for f in report.findings if f.about == about)


@given(st.floats(0.5, 20), st.integers(1, 8), st.floats(5, 20_000), st.integers(2, 5))
def test_a_true_cost_is_consistent_however_it_was_rounded(price: float, gpus: int, rate: float, digits: int) -> None:
    cost = cost_per_million(price, gpus, rate)
    rounded = {name: f"{value:.{digits}g}" for name, value in {"tokens_per_second": rate, "cost": cost}.items()}
    assert checked(gpu_count=gpus, gpu_price=f"{price:.9f}", **rounded).verdict == "consistent"


@given(st.floats(0.5, 20), st.floats(5, 20_000), st.floats(0.05, 0.8))
def test_a_cost_below_the_rent_is_impossible_and_one_above_it_is_not(price: float, rate: float, part: float) -> None:
    cost = cost_per_million(price, 1, rate)
    rented = {"gpu_price": f"{price:.6f}", "tokens_per_second": f"{rate:.6f}"}
    assert checked(**rented, cost=f"{cost * part:.6f}").verdict == "impossible"
    assert checked(**rented, cost=f"{cost / part:.6f}").verdict == "inconsistent"


@pytest.mark.parametrize("which", ["tokens_per_second", "gpu_price"])
def test_what_would_make_a_cost_true_does_make_it_true(which: str) -> None:
    inputs = {"gpu_price": "3.10", "tokens_per_second": "38", "cost": "0.19"}
    found = finding(checked(**inputs), "cost of a million output tokens")
    assert found.verdict == "impossible"
    written = {"tokens_per_second": found.true_if[0].split()[0], "gpu_price": found.true_if[1].split()[-1]}
    assert checked(**{**inputs, which: written[which]}).verdict == "consistent"


def test_without_a_price_the_cheapest_that_was_seen_counts() -> None:
    """An H200 was seen from 1.41 to 7.00: at 1,000 tokens/s .39 to 1.94 per million."""
    verdicts = {
        cost: checked(gpu="H200", tokens_per_second=1000, cost=cost).verdict for cost in ("0.3", "1.00", "2.50")
    }
    assert verdicts == {"0.3": "impossible", "1.00": "consistent", "2.50": "inconsistent"}
    (line, _) = checked(gpu="H200", tokens_per_second=1000, cost="1.00").findings[0].working
    assert "3.59 (USD 1.41 to 7 seen 2026-03 to 2026-05)" in line


def test_more_gpus_cost_more() -> None:
    four = checked(gpu_price="3.10", gpu_count=4, tokens_per_second="33.46", cost=103)
    assert four.verdict == "consistent"
    assert checked(gpu_price="3.10", gpu_count=1, tokens_per_second="33.46", cost=103).verdict == "inconsistent"


@pytest.mark.parametrize(
    ("gpus", "verdict"), [(1, "impossible"), (2, "impossible"), (3, "consistent"), (8, "consistent")]
)
def test_weights_fit_or_they_do_not(gpus: int, verdict: str) -> None:
    report = checked(gpu="H200", gpu_count=gpus, model_params="405e9", weight_bits=8)
    assert report.verdict == verdict
    assert ("3 GPUs" in finding(report, "weights in the memory").true_if) is (verdict == "impossible")


def test_a_batch_shares_the_reading_of_the_weights() -> None:
    plain = {"gpu": "H200", "model_params": "70e9", "weight_bits": 8, "tokens_per_second": 1700}
    assert checked(**plain, batch_size="1-4").verdict == "impossible"
    assert checked(**plain, batch_size=24).verdict == "impossible"
    assert checked(**plain, batch_size=25).verdict == "consistent"
    assert "batch size 25 or more" in finding(checked(**plain, batch_size="1-4"), "memory roof").true_if


@pytest.mark.parametrize(
    ("speculation", "verdict"),
    [
        ({"gamma": 5}, "impossible"),
        ({"gamma": 6}, "consistent"),
        ({"gamma": 8, "acceptance": "0.50"}, "impossible"),
        ({"gamma": 8, "acceptance": "0.70"}, "consistent"),
        ({"acceptance_length": "5.0"}, "impossible"),
        ({"acceptance_length": "6.5"}, "consistent"),
    ],
)
def test_speculation_lifts_the_roof_by_its_tokens_per_step(speculation: dict[str, object], verdict: str) -> None:
    """1,700 tokens/s from four streams at 68.6 steps/s are 6.2 tokens per step."""
    report = checked(
        gpu="H200", model_params="70e9", weight_bits=8, batch_size=4, tokens_per_second=1700, **speculation
    )
    assert finding(report, "memory roof").verdict == verdict


def test_with_a_speedup_alone_the_roof_only_says_how_many_tokens_a_step_must_commit() -> None:
    report = checked(
        gpu="H200", gpu_count=4, model_params="405e9", weight_bits=8, batch_size=1,
        baseline_tokens_per_second="33.46", tokens_per_second="120.75", speedup="3.6",
    )  # fmt: skip
    roofs = [f for f in report.findings if f.about == "memory roof"]
    assert [f.verdict for f in roofs] == [None, None]
    assert any("need 2.544 tokens per step" in line for f in roofs for line in f.working)
    assert report.verdict == "consistent"


def test_a_mixture_of_experts_reads_its_active_parameters() -> None:
    """37 of 671 B parameters in 8 bits on eight H200: 1,038 steps/s and not 57."""
    told = {"gpu": "H200", "gpu_count": 8, "model_params": "671e9", "weight_bits": 8, "batch_size": 1}
    assert checked(**told, tokens_per_second=500).verdict == "impossible"
    assert checked(**told, active_params="37e9", tokens_per_second=500).verdict == "consistent"
    assert checked(**told, active_params="37e9", tokens_per_second=1100).verdict == "impossible"


@given(st.integers(1, 12), st.floats(0.05, 0.98), st.floats(0.001, 0.3), st.floats(1, 2))
def test_a_true_speedup_is_consistent_with_its_acceptance(gamma: int, alpha: float, c: float, v: float) -> None:
    speedup = modelled_speedup(alpha, gamma, c, v)
    told = {"speedup": f"{speedup:.3g}", "acceptance": f"{alpha:.3g}", "gamma": gamma}
    assert checked(**told).verdict == "consistent"
    assert checked(**told, draft_cost=f"{c:.3g}", verify_cost=f"{v:.3g}").verdict == "consistent"
    length = f"{expected_length(alpha, gamma):.3g}"
    assert (
        finding(checked(**told, acceptance_length=length), "tokens per step against acceptance").verdict == "consistent"
    )


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ({"speedup": "2.89", "acceptance": "0.81", "gamma": 5}, "consistent"),
        ({"speedup": "3.90", "acceptance": "0.81", "gamma": 5}, "inconsistent"),  # E = 3.78; as a share of drafts 5.05
        ({"speedup": "5.20", "acceptance": "0.81", "gamma": 5}, "impossible"),
        ({"speedup": "3.20", "acceptance": "0.81", "gamma": 5, "draft_cost": "0.05"}, "inconsistent"),
        ({"speedup": "6.10", "gamma": 5}, "impossible"),
        ({"speedup": "5.90", "gamma": 5}, "consistent"),
        ({"speedup": "3.2", "acceptance_length": "2.9"}, "impossible"),
        ({"speedup": "2.9", "acceptance_length": "3.2"}, "consistent"),
        ({"acceptance_length": "6.5", "gamma": 5}, "impossible"),
        ({"acceptance_length": "2.00", "acceptance": "0.81", "gamma": 5}, "inconsistent"),
    ],
)
def test_speedup_acceptance_and_gamma_bound_each_other(told: dict[str, object], verdict: str) -> None:
    assert checked(**told).verdict == verdict


def test_a_speedup_that_only_rounding_allows_shows_the_ranges() -> None:
    found = finding(checked(acceptance_length=2, gamma=4, speedup=3), "speedup against tokens per step")
    assert found.verdict == "consistent"
    assert "1.5 to 2.5 times at most" in found.working[0]
    assert found.working[1] == "claimed 2.5 to 3.5"


def test_a_verification_cheaper_than_a_plain_step_makes_nothing_true() -> None:
    told = {"gamma": 4, "draft_cost": "0.30"}
    for claimed, expected in (("0.20", False), ("0.90", True)):
        found = finding(checked(**told, break_even_acceptance=claimed), "acceptance at which speculation breaks even")
        assert found.verdict == "inconsistent"
        assert any("verification" in way for way in found.true_if) is expected


def test_drafts_that_cost_too_much_never_break_even() -> None:
    report = checked(break_even_acceptance="0.5", gamma=2, draft_cost="1.50")
    assert report.verdict == "impossible"
    assert "no acceptance breaks even" in report.findings[0].working[1]


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ({"savings": 1000, "tokens_per_month": "10e9", "baseline_cost": "0.19", "cost": "0.09"}, "consistent"),
        ({"savings": 5000, "tokens_per_month": "10e9", "baseline_cost": "0.19", "cost": "0.09"}, "inconsistent"),
        ({"payback_weeks": "4-6", "engineering_cost": 1200, "savings": 1000}, "consistent"),
        ({"payback_weeks": "4-6", "engineering_cost": 40000, "savings": 1000}, "inconsistent"),
        (
            {
                **{"payback_weeks": 6, "engineering_cost": 40000},
                **{"tokens_per_month": "10B", "baseline_cost": "0.09", "cost": "0.19"},
            },
            "impossible",
        ),
        ({"tokens_per_month": "10.00e9", "tokens_per_second": "420.0", "replicas": 9}, "impossible"),
        ({"tokens_per_month": "10e9", "tokens_per_second": "420.0", "replicas": 10}, "consistent"),
    ],
)  # fmt: skip
def test_savings_payback_and_replicas_follow_from_the_volume(told: dict[str, object], verdict: str) -> None:
    assert checked(**told).verdict == verdict


@pytest.mark.parametrize(
    ("told", "about", "computed"),
    [
        ({"baseline_tokens_per_second": 38, "tokens_per_second": 91}, "throughput", -0.582),
        ({"baseline_cost": "0.19", "cost": "0.09"}, "the costs", -0.526),
        ({"speedup": "2.89"}, "the speedup", -0.654),
    ],
)
def test_a_change_of_cost_follows_from_throughput_costs_or_speedup(told, about: str, computed: float) -> None:  # type: ignore[no-untyped-def]
    for change, verdict in ((f"{computed:.0%}", "consistent"), ("-40%", "inconsistent")):
        found = finding(checked(**told, cost_change=change), f"change of the cost, from {about}")
        assert found.verdict == verdict
        assert found.computed is not None
        assert found.computed.value == pytest.approx(computed, abs=5e-4)


def test_costs_that_agree_once_rounded_may_pay_back_and_costs_that_rise_do_not() -> None:
    told = {"payback_weeks": 6, "tokens_per_month": "10B"}
    alike = checked(**told, engineering_cost=1000, baseline_cost="0.1", cost="0.1")
    assert finding(alike, "payback").verdict == "consistent"
    for report in (alike, checked(**told, baseline_cost="0.09", cost="0.19", speedup=2, gamma=4)):
        room = finding(report, "engineering that pays back")
        assert room.computed is not None
        assert room.computed.value == 0
        assert "pay for no engineering" in room.working[0]


def test_a_bill_is_at_least_the_rent_of_the_busy_hours() -> None:
    """10 B tokens at 420 tokens/s are 6,614 hours: 20,503 at 3.10."""
    told = {"gpu_price": "3.10", "tokens_per_month": "10.00e9", "tokens_per_second": "420.0"}
    verdicts = {}
    for cost in ("0.08", "2.05", "4.00"):
        found = finding(checked(**told, cost=cost), "bill against rent")
        assert found.computed is not None
        assert found.computed.value == pytest.approx(20_503, abs=1)
        verdicts[cost] = found.verdict
    assert verdicts == {"0.08": "impossible", "2.05": "consistent", "4.00": "inconsistent"}


def test_the_gravest_verdict_counts_and_comes_first() -> None:
    report = checked(
        gpu_price="3.10", baseline_tokens_per_second=38, tokens_per_second=420, baseline_cost="22.66", cost="0.08"
    )
    verdicts = [f.verdict for f in report.findings]
    assert report.verdict == verdicts[0] == "impossible"
    assert verdicts == sorted(verdicts, key=["impossible", "inconsistent", "consistent"].index)


@pytest.mark.parametrize(
    ("told", "add"),
    [
        ({"gpu_price": 3, "tokens_per_second": 38}, "--cost"),
        ({"gpu": "H200", "model_params": "70B"}, "--weight-bits"),
        ({"speedup": 3}, "--gamma"),
        ({"payback_weeks": 6}, "--engineering-cost and --savings"),
        ({"tokens_per_month": "10B", "tokens_per_second": 38}, "--replicas"),
    ],
)
def test_too_little_to_check_says_what_to_add(told: dict[str, object], add: str) -> None:
    with pytest.raises(SpecbenchError, match=r"^too little to check\. Add ") as caught:
        checked(**told)
    assert add in str(caught.value)


@pytest.mark.parametrize("name", sorted(set(INPUTS) - {"gpu", "kv_shape", "draft_kv_shape", "gpu_count"}))
def test_no_single_figure_is_a_claim(name: str) -> None:
    with pytest.raises(SpecbenchError, match=r"^too little to check\. Add --"):
        checked(**{name: "1"})


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"acceptance": 81}, "--acceptance: expected a share of 1, such as 0.81 or 81%; got '81'"),
        ({"gamma": 0}, "--gamma: expected a number above 0; got '0'"),
        ({"gamma": "2.5"}, "--gamma: expected a whole number; got '2.5'"),
        ({"gamma": 100000}, "--gamma: expected 1000 at most"),
        ({"cost": "cheap"}, "--cost: expected a number such as 0.19"),
        ({"cost_change": "-100%"}, "--cost-change: expected more than -100%"),
        ({"kv_shape": "80x8"}, "--kv-shape: expected LAYERSxKV_HEADSxHEAD_SIZE"),
        ({"gpu": "H2000"}, "no GPU 'H2000' in the catalogue. Did you mean H200?"),
        ({"tokens": 3}, "'tokens' is no input of a claim"),
        ({"model_params": "37e9", "active_params": "671e9"}, "--active-params 671e9 is more than --model-params 37e9"),
    ],
)
def test_a_mistake_names_the_flag(told: dict[str, object], sentence: str) -> None:
    with pytest.raises(SpecbenchError) as caught:
        checked(**told)
    assert sentence in str(caught.value)


_TEXTS = st.sampled_from(["1", "0.5", "50%", "4-8", "38", "0.19", "10B", "-53%", "405e9", "0.01"])


@given(st.dictionaries(st.sampled_from(sorted(set(INPUTS) - {"gpu"})), _TEXTS, max_size=12), st.booleans())
def test_any_claim_gets_a_verdict_or_a_sentence(told: dict[str, str], known_gpu: bool) -> None:
    with suppress(SpecbenchError):
        report = checked(**told, **({"gpu": "H200"} if known_gpu else {}))
        assert report.verdict in {f.verdict for f in report.findings}
        assert all(f.true_if for f in report.findings if f.verdict in ("inconsistent", "impossible"))
