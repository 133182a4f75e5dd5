"""What is said of figures from servers that specbench did not start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.acceptance import AcceptanceCounts
from specbench.analysis import guards
from specbench.analysis.acceptance import longest_draft
from specbench.analysis.attached import attached_marks, by_turns
from specbench.analysis.marks import acceptance_above_gamma
from specbench.analysis.statistics import replicate_interval
from specbench.analysis.verdict import Decision
from specbench.analysis.wording import named
from specbench.backends.base import EngineCounters
from specbench.equivalence.greedy import Margins, judge
from specbench.replay.records import RequestAcceptance, RequestTrace
from specbench.speculation import Speculation
from specbench.store.measurement import Cell, Measurement


def request(index: int = 0, **changed: object) -> RequestTrace:
    trace = RequestTrace(
        index=index, prompt_id=f"p{index}", category=None, scheduled=0.0, sent=0.0, finished=1.0, chunk_times=(1.0,),
        chunk_tokens=(4,), prompt_tokens=3, output_tokens=4, prompt_token_ids=None, token_ids=(1, 2, 3, 4), text="abcd",
        finish_reason="stop", error=None, seed=0, acceptance=None,
    )  # fmt: skip
    return replace(trace, **changed)


def measured(*traces: RequestTrace, backend: str = "attach", counters: EngineCounters | None = None) -> Measurement:
    speculation = Speculation("unknown", attached=True) if backend == "attach" else Speculation("ngram", 2)
    cell = Cell(backend, "m", "chat", speculation, 1, 0.0)
    return Measurement("m-r0k0", "m-r0", cell, 0, 0, "ok", "now", counters=counters, traces=traces)


def codes(*measurements: Measurement) -> set[str]:
    return {mark.code for mark in attached_marks(measurements)}


def test_a_server_that_was_started_here_gets_none_of_these_marks() -> None:
    assert codes(measured(request(token_ids=None), backend="vllm")) == set()


def test_a_server_that_shows_its_counters_and_ids_gets_none_either() -> None:
    assert codes(measured(request(), counters=EngineCounters(generated_tokens=4))) == set()


def test_what_is_not_known_is_said() -> None:
    assert codes(measured(request(token_ids=None))) == {"traffic_unseen", "counted_by_usage"}


@pytest.mark.parametrize("status", [429, 503])
def test_requests_that_were_turned_away_are_counted(status: int) -> None:
    error = f"the server answered {status} (retry after 7): slow down"
    refused = [request(i, error=error, output_tokens=0, token_ids=None) for i in range(3)]
    [mark] = attached_marks([measured(request(9), *refused, counters=EngineCounters(generated_tokens=4))])
    assert mark.code == "rate_limited"
    assert "3 of 4 requests" in mark.text


def test_turns_at_two_servers_are_one_launch() -> None:
    ratios = [0.5, 0.52, 0.48]
    found, usual = by_turns(replicate_interval)(ratios), replicate_interval(ratios)
    assert found is not None
    assert usual is not None
    assert (found.low, found.high) == (usual.low, usual.high)
    assert found.basis == "within one launch, by turns"


def test_requests_of_others_are_seen_by_their_number_too() -> None:
    """A client that asks for long prompts and a token each makes hardly any tokens."""
    traces = [request(i) for i in range(20)]
    quiet = EngineCounters(generated_tokens=80, finished_requests=20, others_before=0)
    assert guards.other_traffic([measured(*traces, counters=quiet)]) is None
    health_check = replace(quiet, finished_requests=21)
    assert guards.other_traffic([measured(*traces, counters=health_check)]) is None
    for crowded, figure in ((replace(quiet, finished_requests=26), "26"), (replace(quiet, others_before=2), "2")):
        mark = guards.other_traffic([measured(*traces, counters=crowded)])
        assert mark is not None
        assert mark.code == "other_traffic"
        assert f" {figure} requests" in mark.text


def test_a_gamma_that_nobody_tells_makes_nothing_impossible() -> None:
    counts = AcceptanceCounts(steps=10, drafted=30, accepted=20)
    assert guards.counts_impossible([counts], 0) is None
    assert guards.counts_impossible([counts], 2) is not None
    assert acceptance_above_gamma(3.0, 0) is None
    assert acceptance_above_gamma(3.5, 2) is not None


def test_the_longest_draft_stands_in_for_it() -> None:
    steps = RequestAcceptance(3, 9, 5, (4, 4, 1), (2, 2, 1))
    positions = RequestAcceptance(3, 9, 5, by_position=(3, 1, 1))
    assert longest_draft([request(), request(acceptance=steps)]) == 4
    assert longest_draft([request(acceptance=positions)]) == 3
    assert longest_draft([request()]) == 0


def test_outputs_without_ids_are_compared_as_text_and_it_is_said() -> None:
    plain = [request(i, token_ids=None) for i in range(3)]
    same = judge("c", plain, [plain], Margins(), seeded=True)
    assert same.verdict == "EXACT"
    assert "3 compared as text, the server gives no token ids" in same.detail
    other = [replace(plain[0], text="abxd"), *plain[1:]]
    differs = judge("c", plain, [other], Margins(), seeded=True)
    assert differs.verdict == "DIVERGENT"
    assert "first at character 2 of p0" in differs.detail
    mixed = judge("c", plain, [[request(i) for i in range(3)]], Margins(), seeded=True)
    assert mixed.verdict == "NOT_CHECKED"  # ids on one side alone say nothing


def test_an_arm_is_named_as_far_as_it_is_known() -> None:
    assert named(Decision("ENABLE", "eagle3", 3, 8)) == "eagle3, gamma 3"
    assert named(Decision("ENABLE", "unknown", 3, 8)) == "a method that the server does not tell, gamma 3"
    assert named(Decision("ENABLE", "unknown", 0, 8)).endswith("gamma not reported")
