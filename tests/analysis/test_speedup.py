"""Speedup against step times that are known by construction."""

from __future__ import annotations

import math

import pytest
from known_run import NGRAM, failed, measurement

from specbench.analysis.speedup import Speedup, pair, speedup
from specbench.analysis.throughput import throughput
from specbench.store.measurement import Measurement

LOOP = (1, 2, 3, *[9] * 38)


def gain(speculative: list[Measurement], baseline: list[Measurement]) -> Speedup:
    return speedup(
        pair(speculative, baseline), {m.id: throughput(m) for m in (*speculative, *baseline) if m.status == "ok"}
    )


def test_speedup_is_the_ratio_of_request_times_for_equal_tokens() -> None:
    found = gain([measurement(NGRAM, 2, accepted=3, steps=(0.015,))], [measurement(batch_size=2, steps=(0.01,))])
    assert found.value == pytest.approx((0.1 + 40 * 0.01) / (0.1 + 10 * 0.015))


def test_replicates_are_the_clusters_where_there_are_two() -> None:
    speculative = [measurement(NGRAM, 1, accepted=3, replicate=r, steps=(0.01 + 0.001 * r,)) for r in range(2)]
    found = gain(speculative, [measurement(replicate=r) for r in range(2)])
    assert found.interval is not None
    assert found.interval.basis == "replicates"
    assert found.value == pytest.approx(((0.5 / 0.2) * (0.5 / 0.21)) ** 0.5)
    assert found.spread == pytest.approx(math.log(0.21 / 0.2) / 2**0.5)


def test_within_one_launch_prompts_are_the_clusters() -> None:
    # Long answers gain more here, so which prompts are drawn matters.
    lengths = (21, 41, 81, 101)
    found = gain(
        [measurement(NGRAM, 1, requests=16, accepted=3, lengths=lengths, repeat=k) for k in range(2)],
        [measurement(requests=16, lengths=lengths, repeat=k) for k in range(2)],
    )
    assert found.value is not None
    assert found.interval is not None
    assert found.interval.basis == "within one launch, by prompt"
    assert found.interval.low < found.value < found.interval.high < 1.3 * found.value


def test_a_long_launch_is_judged_by_blocks_of_its_time() -> None:
    """200 s of steady state per arm: seconds are many enough to show how they vary, and prompts may be few."""
    lengths = (41, 61, 21, 81, 31)
    found = gain(
        [measurement(NGRAM, 2, requests=1600, prompts=5, accepted=3, lengths=lengths, steps=(0.01, 0.014, 0.008))],
        [measurement(batch_size=2, requests=800, prompts=5, lengths=lengths, steps=(0.01, 0.014, 0.008))],
    )
    assert found.value is not None
    assert found.interval is not None
    assert found.interval.basis == "within one launch, by time block"
    assert found.interval.low < found.value < found.interval.high < 1.2 * found.value


def test_measurements_are_paired_by_replicate_and_repeat_and_failed_ones_by_none() -> None:
    speculative = [measurement(NGRAM, replicate=r, repeat=k) for r in range(2) for k in range(2)]
    baseline = [measurement(replicate=0, repeat=0), measurement(replicate=1, repeat=1), failed(replicate=1, repeat=0)]
    assert [(s.replicate, s.repeat, b.replicate, b.repeat) for s, b in pair(speculative, baseline)] == [
        (0, 0, 0, 0),
        (1, 1, 1, 1),
    ]
    assert pair([failed()], baseline) == []


def test_without_a_steady_window_only_the_whole_run_speaks() -> None:
    found = gain([measurement(NGRAM, 4, requests=4, accepted=3)], [measurement(batch_size=4, requests=4)])
    assert (found.value, found.interval, found.without_degenerate) == (None, None, None)
    assert found.whole_run == pytest.approx(0.5 / 0.2)


def test_leaving_a_loop_out_takes_back_what_it_seemed_to_gain() -> None:
    """A looping request is accepted whole; its honest neighbours gain nothing."""
    honest = measurement(NGRAM, 1, requests=12, accepted=0)
    lucky = measurement(NGRAM, 1, requests=12, accepted=4, outputs={5: LOOP})
    mixed = [lucky.traces[t.index] if t.index == 5 else t for t in honest.traces]
    baseline = measurement(requests=12, outputs={5: LOOP})
    found = gain([measurement(NGRAM, traces=tuple(mixed))], [baseline])
    assert found.value is not None
    assert found.without_degenerate is not None
    all_in = (12 * 0.5) / (11 * 0.5 + 0.1 + 8 * 0.01)
    assert found.without_degenerate == pytest.approx(found.value / all_in)


def test_without_degenerate_requests_both_speedups_are_one() -> None:
    found = gain([measurement(NGRAM, 1, accepted=3)], [measurement()])
    assert found.without_degenerate == pytest.approx(found.value)


def test_no_pair_is_no_speedup() -> None:
    assert gain([], []) == Speedup(None, None, None, None, None)
