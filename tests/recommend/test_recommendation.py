"""The recommendation on runs whose right answer can be worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from known_grid import REQUEST_SECONDS, measured, measurements, store
from known_run import NGRAM, failed, measurement, output_of
from known_run import store as known_store

from specbench.errors import SpecbenchError
from specbench.recommend.concurrency import Concurrency, around_mean
from specbench.recommend.measure import MeasuredSchedule
from specbench.recommend.recommendation import recommend
from specbench.recommend.text import gammas_in_words, headline, text
from specbench.schedule import Schedule
from specbench.speculation import Speculation

CROSSING = {("ngram", 2): {1: 1.3, 4: 1.2, 8: 0.95}, ("ngram", 4): {1: 1.5, 4: 1.1, 8: 0.8}}
"""Gamma 4 is best at batch size 1, gamma 2 at 4, none at 8."""


def test_the_best_arm_of_each_batch_size_is_found_with_its_probability(tmp_path: Path) -> None:
    found = recommend(store(tmp_path, CROSSING)).best_by_batch
    assert [(at.batch_size, at.best.label) for at in found] == [(1, "ngram γ4"), (4, "ngram γ2"), (8, "none")]
    for at in found:
        assert math.fsum(c.p_best for c in at.contenders) == pytest.approx(1)
        assert at.best.p_best > 0.95
        assert not at.ties
    speedup = found[0].best.speedup
    assert speedup.value == pytest.approx(1.5, rel=0.01)
    assert speedup.low is not None
    assert speedup.high is not None
    assert speedup.low < 1.5 < speedup.high


def test_two_arms_that_launches_do_not_tell_apart_are_a_tie_that_is_said(tmp_path: Path) -> None:
    run = store(tmp_path, {("ngram", 2): {1: 1.30}, ("ngram", 4): {1: 1.31}, ("suffix", 3): {1: 1.1}}, noise=0.01)
    made = recommend(run)
    (at,) = made.best_by_batch
    assert at.best.label == "ngram γ4"
    assert [c.label for c in at.ties] == ["ngram γ2"]
    assert at.best.p_best + at.contenders[1].p_best > 0.95
    assert "ngram γ2 (0." in text(made)


def test_gamma_follows_the_batch_size_along_lines_over_its_logarithm(tmp_path: Path) -> None:
    made = recommend(store(tmp_path, CROSSING))
    # ln speedups cross at 4^0.62 = 2.4; gamma 2 crosses 1 at 4·2^0.78 = 6.9.
    assert (made.method, made.schedule) == ("ngram", "1=4+3=2+7=0")
    assert gammas_in_words("1=4+3=2+7=0") == "gamma 4 at batch size 1-2, 2 at 3-6, off from 7 on"
    assert made.turn_off_above is not None
    off = made.turn_off_above.batch_size
    expected = 4 * 2 ** (math.log(1.2) / math.log(1.2 / 0.95))
    assert off.value == pytest.approx(expected, rel=0.02)
    assert off.low is not None
    assert off.high is not None
    assert 4 < off.low < expected < off.high < 8


def test_the_gain_over_a_histogram_is_time_for_the_same_work(tmp_path: Path) -> None:
    run = store(tmp_path, CROSSING)
    made = recommend(run, concurrency=Concurrency.of({0: 5, 1: 2, 4: 1, 8: 1}, "test"))
    assert made.gain is not None
    assert made.gain.value == pytest.approx(1 / (0.5 / 1.5 + 0.25 / 1.2 + 0.25), rel=0.01)
    # One gamma that stays loses at batch size 8: gamma 2 is the better one, and less than the schedule.
    assert made.fixed is not None
    assert made.fixed.gamma == 2
    assert made.fixed.gain is not None
    assert made.fixed.gain.value == pytest.approx(1 / (0.5 / 1.3 + 0.25 / 1.2 + 0.25 / 0.95), rel=0.01)


def test_the_method_of_the_schedule_is_the_best_over_the_users_concurrency(tmp_path: Path) -> None:
    run = store(tmp_path, {("ngram", 4): {1: 1.7, 8: 1.05}, ("suffix", 4): {1: 1.2, 8: 1.15}})
    few = recommend(run, concurrency=Concurrency.of({1: 1}, "test"))
    many = recommend(run, concurrency=Concurrency.of({8: 1}, "test"))
    assert (few.method, many.method) == ("ngram", "suffix")
    assert [m.p_best > 0.95 for m in few.methods] == [True, False]
    both = recommend(run, concurrency=Concurrency.of({1: 1, 8: 1}, "test"))
    assert both.free_choice is not None
    assert both.gain is not None
    assert both.free_choice.value == pytest.approx(2 / (1 / 1.7 + 1 / 1.15), rel=0.01)
    assert (both.free_choice.value or 0) > (both.gain.value or 0)


def test_what_is_beyond_the_measured_batch_sizes_is_off_and_its_share_said(tmp_path: Path) -> None:
    made = recommend(
        store(tmp_path, {("ngram", 4): {1: 1.5, 4: 1.4}}), concurrency=Concurrency.of({4: 3, 64: 1}, "test")
    )
    assert made.schedule == "1=4+5=0"
    assert made.share_beyond_measured == 0.25
    assert made.gain is not None
    assert made.gain.value == pytest.approx(1 / (0.75 / 1.4 + 0.25), rel=0.01)
    assert made.fixed is not None
    assert made.fixed.gain is None
    assert "25% of that time is beyond the largest measured batch size" in text(made)


def test_a_limit_lets_requests_wait() -> None:
    limited = Concurrency.of({1: 1, 4: 1, 9: 1, 64: 1}, "test").limited_to(8)
    assert limited.shares == {1: 0.25, 4: 0.25, 8: 0.5}


def test_one_gamma_for_all_is_judged_with_the_limit_of_its_command(tmp_path: Path) -> None:
    run = store(tmp_path, {("suffix", 4): {1: 1.3, 4: 1.1, 8: 0.5}}, config={"backend": "vllm"})
    evenly = recommend(run)
    assert evenly.method == "suffix"
    assert evenly.paste is not None
    assert evenly.paste.command is None
    assert "is 0.82 times as fast" in evenly.paste.notes[0]
    assert evenly.paste.notes[0] in " ".join(text(evenly).replace("\n# ", " ").split())
    few = recommend(run, concurrency=Concurrency.of({1: 9, 100: 1}, "test"))
    assert few.fixed is not None
    assert few.fixed.gain is None
    assert few.fixed.limited_gain is not None
    assert few.fixed.limited_gain.value == pytest.approx(1 / (0.9 / 1.3 + 0.1 / 0.5), rel=0.01)
    assert few.paste is not None
    assert "vllm serve" in str(few.paste.command)


def test_without_a_gamma_that_counts_everywhere_the_best_is_that_of_common_batch_sizes(tmp_path: Path) -> None:
    """Gamma 2 counts at 1 and 4, gamma 4 at 1 and 8: at 1 gamma 4 is faster, whatever gamma 2 does besides."""
    taken = [
        *measurements({("ngram", 2): {1: 1.2, 4: 1.3}, ("ngram", 4): {1: 1.4, 8: 1.02}}),
        failed(Speculation("ngram", 2), 8),
        failed(Speculation("ngram", 4), 4),
    ]
    made = recommend(known_store(tmp_path, taken))
    assert made.fixed is not None
    assert (made.fixed.gamma, made.fixed.gain, made.fixed.limited_gain) == (4, None, None)


def test_a_loss_at_the_users_own_concurrency_is_a_recommendation(tmp_path: Path) -> None:
    run = store(tmp_path, {("ngram", 4): {1: 1.5, 4: 1.3, 8: 0.8}})
    made = recommend(run, concurrency=Concurrency.of({8: 1}, "test"))
    assert made.decision.recommendation == "ENABLE UP TO BATCH 4"
    assert (made.method, made.loses_here, made.is_decided) == (None, True, True)
    assert headline(made) == "leave speculation off at this concurrency"
    assert "The sweep's verdict is ENABLE UP TO BATCH 4" in " ".join(text(made).split())
    beyond = recommend(run, concurrency=Concurrency.of({9: 1}, "test"))
    assert (beyond.loses_here, beyond.is_decided) == (False, False)


def test_a_choice_among_several_arms_is_said_to_lean_upward(tmp_path: Path) -> None:
    several = recommend(store(tmp_path / "several", CROSSING)).caveats
    alone = recommend(store(tmp_path / "one", {("ngram", 4): {1: 1.5}})).caveats
    assert ["lean upward" in " ".join(caveats) for caveats in (several, alone)] == [True, False]


def test_a_gain_that_is_not_sure_is_not_switched_on(tmp_path: Path) -> None:
    made = recommend(store(tmp_path, {("ngram", 4): {1: 1.2, 4: 1.1}}, noise=0.2))
    assert made.decision.recommendation == "NOT ENOUGH EVIDENCE"
    assert (made.method, made.paste, made.is_decided) == (None, None, False)
    assert headline(made) == "not enough evidence"


def test_losses_everywhere_are_a_recommendation_too(tmp_path: Path) -> None:
    made = recommend(store(tmp_path, {("ngram", 4): {1: 0.9, 4: 0.8}}))
    assert made.decision.recommendation == "DISABLE"
    assert made.is_decided
    assert headline(made) == "leave speculation off"
    assert made.turn_off_above is not None
    assert made.turn_off_above.batch_size.value == 0


def test_a_schedule_may_begin_to_speculate_where_a_fixed_gamma_may_not(tmp_path: Path) -> None:
    """The verdict is on one gamma from the smallest batch size on; that is said beside it."""
    made = recommend(store(tmp_path, {("ngram", 4): {1: 0.8, 4: 1.25, 8: 1.25}}))
    assert made.decision.recommendation == "DISABLE"
    # ln .8 = -ln 1.25: the line crosses 1 halfway, at batch size 2.
    assert made.schedule == "1=0+3=4+9=0"
    assert "a schedule can be off where that one loses" in " ".join(text(made).split())


def test_what_the_verdict_enables_the_schedule_has_on_as_far(tmp_path: Path) -> None:
    made = recommend(store(tmp_path, {("ngram", 4): {1: 1.5, 4: 1.3, 8: 0.9}}))
    assert made.decision.up_to_batch_size == 4
    assert made.schedule is not None
    assert made.schedule.startswith("1=4+")
    assert int(made.schedule.removeprefix("1=4+").removesuffix("=0")) > 4


def test_void_and_divergent_cells_are_left_out_with_their_reason(tmp_path: Path) -> None:
    taken = [
        *(measurement(batch_size=size, replicate=r, requests=16) for size in (1, 4) for r in range(2)),
        *(
            measurement(NGRAM, 1, accepted=1, steps=(0.0149,), replicate=r, requests=16, client_lag_p99=0.5)
            for r in range(2)
        ),
        *(
            measurement(NGRAM, 4, accepted=1, replicate=r, requests=16, outputs={3: output_of("other", 41)})
            for r in range(2)
        ),
        failed(Speculation("ngram", 2), 1),
    ]
    made = recommend(known_store(tmp_path, taken))
    reasons = {(e.arm, e.batch_size): e.reason for e in made.excluded}
    assert "the replaying client lagged" in reasons["ngram γ4", 1]
    assert "outputs differ from plain decoding's" in reasons["ngram γ4", 4]
    assert "exit code 137" in reasons["ngram γ2", 1]
    assert made.best_by_batch == ()
    assert not made.is_decided


def test_workloads_that_are_served_together_must_all_gain(tmp_path: Path) -> None:
    chat = measurements({("ngram", 4): {1: 0.9}}, workload="chat")
    code = measurements({("ngram", 4): {1: 1.6}}, workload="code")
    run = known_store(tmp_path, [*chat, *code], workload=["chat.jsonl", "code.jsonl"])
    assert recommend(run).method is None
    alone = recommend(run, workload="code")
    assert alone.method == "ngram"
    assert alone.workloads == ("code",)
    with pytest.raises(SpecbenchError, match=r"no workload 'tickets'\. It has: .*code"):
        recommend(run, workload="tickets")


def test_one_launch_rests_on_its_prompts_and_says_so(tmp_path: Path) -> None:
    made = recommend(store(tmp_path, {("ngram", 4): {1: 1.5}}, replicates=1, lengths=(41, 33, 25, 57)))
    assert made.method == "ngram"
    assert any("one launch per arm" in caveat for caveat in made.caveats)


def test_at_a_rate_of_a_server_without_a_queue_latency_is_its_own(tmp_path: Path) -> None:
    """Batch mates slow nobody in this run: n requests end at n / 0.5 s, so whatever the rate latency is 0.5 s."""
    run = store(tmp_path, {("ngram", 4): {1: 1.25, 8: 1.25}})
    (at,) = recommend(run, rates=[4]).at_rates
    assert at.plain is not None
    assert at.plain.latency.value == pytest.approx(REQUEST_SECONDS, rel=0.01)
    assert at.plain.concurrency.value == pytest.approx(4 * REQUEST_SECONDS, rel=0.01)
    assert at.speculative is not None
    assert at.speculative.concurrency.value == pytest.approx(4 * REQUEST_SECONDS / 1.25, rel=0.02)
    assert at.latency_speedup is not None
    assert at.latency_speedup.value == pytest.approx(1.25, rel=0.02)


def test_a_rate_beyond_the_largest_measured_batch_size_is_refused_with_what_to_measure(tmp_path: Path) -> None:
    run = store(tmp_path, {("ngram", 4): {1: 1.25, 8: 1.25}})
    (at,) = recommend(run, rates=[21]).at_rates
    assert at.plain is None
    assert "more than the 20 that are served at batch size 8" in (at.refused or "")
    assert "--batch-size 8,16,32" in (at.refused or "")


def test_without_batch_size_1_there_is_no_prediction_at_a_rate(tmp_path: Path) -> None:
    made = recommend(store(tmp_path, {("ngram", 4): {4: 1.25, 8: 1.25}}), rates=[1])
    assert "measure from 1 on" in (made.at_rates[0].refused or "")
    assert made.schedule == "1=0+4=4+9=0"
    assert any("below batch size 4 nothing was measured" in caveat for caveat in made.caveats)


def test_a_mean_concurrency_is_taken_as_poisson(tmp_path: Path) -> None:
    assert around_mean(0.5).mean == pytest.approx(0.5 / (1 - math.exp(-0.5)), rel=1e-6)
    with pytest.raises(SpecbenchError, match="--mean-concurrency: expected more than 0"):
        around_mean(0)


def test_rules_of_thumb_are_held_against_the_run(tmp_path: Path) -> None:
    rules = {r.rule: r for r in recommend(store(tmp_path, CROSSING)).thumb_rules}
    # One of four tokens is accepted at gamma 4, one of two at gamma 2, and yet both gain at batch sizes 1 and 4.
    half = rules["acceptance above 50% pays, below it costs"]
    assert (half.held, half.misled) == (2, 4)
    assert half.verdict == "misled"
    small = rules["it pays up to batch size 8"]
    assert (small.held, small.misled) == (4, 2)
    assert rules["it pays while the GPU is less than half busy"].verdict == "cannot say"


def test_a_schedule_that_was_measured_is_held_against_its_prediction(tmp_path: Path) -> None:
    """As predicted at batch size 1, slower than predicted at 4, and at 8, where it is off, as fast as without."""
    arm = Speculation.scheduled("ngram", Schedule.parse("1=4+3=2+7=0"))
    delivered = {1: 1.5, 4: 1.05, 8: 1.0}
    noise = (-0.004, 0.0, 0.004)
    new = known_store(
        tmp_path / "new",
        [
            *measurements({("ngram", 2): {1: 1.3, 4: 1.2, 8: 0.95}}),
            *(
                measured(arm, size, speedup * math.exp(noise[r]), r)
                for size, speedup in delivered.items()
                for r in range(3)
            ),
        ],
    )
    run = store(tmp_path / "run", CROSSING)
    result, _, _ = MeasuredSchedule.of(run, new, recommend(run))
    assert (result.schedule, result.fixed_gamma) == ("1=4+3=2+7=0", 2)
    assert [(c.batch_size, c.gamma, c.delivered) for c in result.checks] == [
        (1, 4, "as predicted"),
        (4, 2, "worse"),
        (8, 0, "as predicted"),
    ]
    assert [c.measured and c.measured.value for c in result.checks] == pytest.approx([1.5, 1.05, 1.0], rel=0.01)
    assert result.checks[0].fixed is not None
    assert result.checks[0].fixed.value == pytest.approx(1.3, rel=0.01)


def test_cells_of_a_schedule_are_no_candidates_for_another(tmp_path: Path) -> None:
    arm = Speculation.scheduled("ngram", Schedule.parse("1=4+3=0"))
    taken = [*measurements({("ngram", 2): {1: 1.2}}), *(measured(arm, 1, 1.6, r) for r in range(3))]
    made = recommend(known_store(tmp_path, taken))
    assert made.schedule == "1=2+2=0"
    assert made.decision.method == "ngram"
