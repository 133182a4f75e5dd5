"""Guards speak up exactly when a cell cannot be believed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_run import NGRAM, counts, measurement, request

from specbench.acceptance import AcceptanceCounts
from specbench.analysis import guards
from specbench.backends.base import EngineCounters
from specbench.store.measurement import Measurement


def code(mark: object) -> str | None:
    return getattr(mark, "code", None)


@st.composite
def honest_counts(draw: st.DrawFn) -> tuple[AcceptanceCounts, int]:
    """What an engine counts that drafts up to γ tokens a step and accepts a beginning of each draft."""
    gamma = draw(st.integers(1, 8))
    drafts = draw(st.lists(st.integers(0, gamma), min_size=1, max_size=50))
    kept = [draw(st.integers(0, d)) for d in drafts]
    positions = tuple(sum(k > i for k in kept) for i in range(gamma))
    return AcceptanceCounts(len(drafts), sum(drafts), sum(kept), sum(d > 0 for d in drafts), positions), gamma


class TestCounts:
    @given(honest_counts())
    def test_what_an_engine_can_count_is_possible(self, counted: tuple[AcceptanceCounts, int]) -> None:
        assert guards.counts_impossible([counted[0]], counted[1]) is None

    @pytest.mark.parametrize(
        "wrong",
        [
            {"accepted": -1},
            {"accepted": 41},  # more than drafted: a rate above 1 (sglang#11572)
            {"drafted": 41},  # more than γ·steps
            {"drafted": None, "accepted": 41, "by_position": None},
            {"drafts": 11},
            {"by_position": (5, 6, 4, 3)},
            {"by_position": (9, 6, 3, 1)},  # does not add up to accepted
        ],
    )
    def test_what_none_can_count_is_impossible(self, wrong: dict[str, Any]) -> None:
        right = AcceptanceCounts(steps=10, drafted=40, accepted=18, drafts=10, by_position=(9, 5, 3, 1))
        assert guards.counts_impossible([right], 4) is None
        assert code(guards.counts_impossible([right, replace(right, **wrong)], 4)) == "counts_impossible"

    def test_a_counter_that_went_down_voids_the_cell(self) -> None:
        before = measurement(NGRAM)
        assert guards.counters_reset([before, replace(before, counters=None)]) is None
        mark = guards.counters_reset([before, replace(before, counters=EngineCounters(reset=True))])
        assert code(mark) == "counters_reset"


def made(m: Measurement, tokens: int | None) -> Measurement:
    return replace(m, counters=EngineCounters(generated_tokens=tokens))


class TestTraffic:
    """8 requests of 41 tokens: 328 in all."""

    @pytest.mark.parametrize(
        ("tokens", "marked"), [(None, False), (328, False), (336, False), (340, True), (656, True)]
    )
    def test_tokens_that_nobody_here_received_are_other_traffic(self, tokens: int | None, marked: bool) -> None:
        assert (code(guards.other_traffic([made(measurement(), tokens)])) == "other_traffic") is marked

    def test_a_failed_request_may_have_left_tokens_on_the_way(self) -> None:
        m = measurement()
        cut = replace(m.traces[0], error="the connection broke", output_tokens=1)
        assert guards.other_traffic([made(replace(m, traces=(cut, *m.traces[1:])), 328)]) is None


class TestAcceptanceLength:
    @pytest.mark.parametrize("length", [40, 41, 42, 43, 44, 45])
    def test_a_cut_last_step_is_no_disagreement(self, length: int) -> None:
        m = measurement(NGRAM, accepted=3, lengths=(length,))
        told = counts(m.traces, 4)
        assert told is not None
        assert guards.lengths_disagree(m.traces, told, 4) is None

    def test_acceptance_of_other_requests_disagrees_with_the_streams(self) -> None:
        """As a gauge of one rank, or of an earlier window, would have it (sglang#34743)."""
        m = measurement(NGRAM, accepted=1, lengths=(401,))
        stale = AcceptanceCounts(steps=1600, drafted=6400, accepted=4000)
        mark = guards.lengths_disagree(m.traces, stale, 4)
        assert code(mark) == "lengths_disagree"
        assert "3.50 tokens per step, and the streams hold 2.00" in getattr(mark, "text", "")

    def test_the_streams_length_is_tokens_less_the_prefills_over_steps(self) -> None:
        m = measurement(NGRAM, accepted=3, lengths=(41,))
        assert guards.stream_length(m.traces, 80) == pytest.approx(4.0)
        assert guards.stream_length(m.traces, 0) is None
        assert guards.stream_length([], 80) is None


def stopped(m: Measurement, *indexes: int) -> Measurement:
    """With some requests ended by the model; the token limit ends the others."""
    return replace(m, traces=tuple(replace(t, finish_reason="stop") if t.index in indexes else t for t in m.traces))


class TestFinish:
    def test_arms_that_end_for_other_reasons_do_other_work(self) -> None:
        base, arm = measurement(), measurement(NGRAM, accepted=3)
        assert guards.finish_reasons_differ([(arm, base)]) is None
        mark = guards.finish_reasons_differ([(stopped(arm, *range(8)), base)])
        assert code(mark) == "finish_reasons_differ"
        assert "ends 0 of 8 requests here and 8 in the baseline" in getattr(mark, "text", "")

    def test_a_few_are_chance(self) -> None:
        base, arm = measurement(requests=40), measurement(NGRAM, requests=40)
        assert guards.finish_reasons_differ([(stopped(arm, 0, 1), base)]) is None
        assert guards.finish_reasons_differ([]) is None

    def test_sampled_outputs_may_differ_either_way(self) -> None:
        base, arm = measurement(requests=40), measurement(NGRAM, requests=40)
        assert guards.finish_reasons_differ([(stopped(arm, *range(8)), stopped(base, *range(8, 14)))]) is None
        assert guards.finish_reasons_differ([(stopped(arm, *range(14)), stopped(base, 20))]) is not None


def attached(m: Measurement) -> Measurement:
    return replace(m, cell=replace(m.cell, backend="attach"))


class TestRepeats:
    def test_repeats_served_from_a_cache_are_contaminated(self) -> None:
        cold = measurement(prefill=0.1)
        warm = measurement(prefill=0.02, repeat=1)
        assert code(guards.repeats_prefill_faster([warm, cold])) == "repeats_prefill_faster"

    def test_repeats_as_slow_as_the_first_pass_are_not(self) -> None:
        passes = [measurement(prefill=p, repeat=k) for k, p in enumerate((0.1, 0.09, 0.03))]
        assert guards.repeats_prefill_faster(passes) is None  # one of two: chance, not a cache
        assert guards.repeats_prefill_faster(passes[:1]) is None

    def test_a_launch_is_compared_with_itself(self) -> None:
        slow, fast = measurement(prefill=0.1, replicate=0), measurement(prefill=0.02, replicate=1)
        assert guards.repeats_prefill_faster([slow, fast]) is None

    def test_turns_at_one_attached_server_share_its_cache(self) -> None:
        turns = [attached(measurement(prefill=p, replicate=r)) for r, p in enumerate((0.1, 0.02, 0.03))]
        mark = guards.repeats_prefill_faster(turns)
        assert code(mark) == "repeats_prefill_faster"
        assert "more --replicates" not in getattr(mark, "text", "")
        other_arm = attached(measurement(NGRAM, prefill=0.02, replicate=1))
        assert guards.repeats_prefill_faster([turns[0], other_arm]) is None  # the baseline's server, and another

    def test_an_engine_that_counts_its_hits_is_believed(self) -> None:
        passes = [measurement(prefill=p, repeat=k) for k, p in enumerate((0.1, 0.02))]
        reported = [replace(m, counters=EngineCounters(prefix_cache_queries=160, prefix_cache_hits=0)) for m in passes]
        assert guards.repeats_prefill_faster(reported) is None


class TestMachine:
    @pytest.mark.parametrize(
        ("percent", "cores", "marked"), [(15.0, 2, False), (25.0, 2, True), (25.0, 16, False), (None, 2, False)]
    )
    def test_a_tenth_of_the_machine_taken_by_others_is_busy(
        self, percent: float | None, cores: int, marked: bool
    ) -> None:
        m = replace(measurement(), other_cpu_percent=percent, cores=cores)
        assert (code(guards.busy_machine([m])) == "busy_machine") is marked

    def test_a_warm_up_that_never_settled_is_told(self) -> None:
        assert guards.warm_up_unsettled([measurement(), replace(measurement(), warm_up_settled=True)]) is None
        assert code(guards.warm_up_unsettled([replace(measurement(), warm_up_settled=False)])) == "warm_up_unsettled"

    def test_a_server_that_drafts_from_earlier_answers_is_contaminated(self) -> None:
        assert guards.contaminated([]) is None
        mark = guards.contaminated(["it looks drafts up"] * 2)
        assert code(mark) == "contaminated"
        assert getattr(mark, "text", "") == "Contaminated: it looks drafts up."

    def test_a_lossy_engine_is_named(self) -> None:
        assert guards.lossy([]) is None
        mark = guards.lossy(["acceptance is made up"] * 2)
        assert code(mark) == "lossy"
        assert getattr(mark, "text", "").count("made up") == 1


@given(st.integers(1, 8), st.integers(0, 4), st.integers(2, 60))
def test_a_sound_engine_is_never_suspected(gamma: int, accepted: int, length: int) -> None:
    trace = request(gamma=gamma, accepted=min(accepted, gamma), length=length)
    told = counts([trace], gamma)
    assert told is not None
    assert guards.counts_impossible([told], gamma) is None
    assert guards.lengths_disagree([trace], told, gamma) is None
