"""Counters of SGLang and TensorRT-LLM: what follows from two readings, and what does not."""

from __future__ import annotations

from specbench.acceptance import AcceptanceCounts
from specbench.backends import sglang_counters, tensorrt_llm_counters
from specbench.telemetry.prometheus import Metrics, parse


def sglang(*ranks: tuple[int, int, int]) -> Metrics:
    """generation tokens, verification passes and requests of each rank"""
    names = ("generation_tokens", "spec_verify_calls", "num_requests")
    return parse(
        "".join(
            f"# TYPE sglang:{name} counter\n"
            + "".join(f'sglang:{name}_total{{dp_rank="{r}"}} {values[i]}\n' for r, values in enumerate(ranks))
            for i, name in enumerate(names)
        )
    )


def test_sglangs_accepted_tokens_follow_from_tokens_requests_and_passes_of_all_ranks() -> None:
    found = sglang_counters.counters_between(sglang((10, 4, 1), (0, 0, 0)), sglang((110, 44, 3), (30, 14, 1)))
    assert found is not None
    assert found.generated_tokens == 130
    assert found.acceptance == AcceptanceCounts(steps=54, drafted=None, accepted=130 - 3 - 54)


def test_a_flush_in_between_voids_sglangs_acceptance() -> None:
    found = sglang_counters.counters_between(sglang((100, 40, 2)), sglang((60, 20, 1)))
    assert found is not None
    assert found.reset
    assert found.acceptance is None


def test_without_speculation_sglang_reports_none() -> None:
    plain = parse("# TYPE sglang:generation_tokens counter\nsglang:generation_tokens_total 7\n")
    found = sglang_counters.counters_between(plain, plain)
    assert found is not None
    assert found.acceptance is None


def iteration(number: int, drafted: int = 8, accepted: int = 5, requests: int = 2) -> dict[str, object]:
    stats = {"numDraftTokens": drafted, "numAcceptedTokens": accepted, "numRequestsWithDraftTokens": requests}
    batch = {"numContextRequests": 0, "numGenRequests": 3}
    return {"iter": number, "specDecodingStats": stats, "inflightBatchingStats": batch}


def test_tensorrt_llms_iterations_add_up() -> None:
    """Three sequences in each of eleven iterations, two of which had a draft, and none in the last."""
    iterations = {n: iteration(n) for n in range(7, 17)} | {17: iteration(17, 0, 0, 0)}
    found = tensorrt_llm_counters.counters_of(iterations)
    assert found is not None
    assert found.acceptance == AcceptanceCounts(steps=33, drafted=80, accepted=50, drafts=20)


def test_a_lost_iteration_voids_tensorrt_llms_counters() -> None:
    assert tensorrt_llm_counters.counters_of({1: iteration(1), 3: iteration(3)}) is None
    assert tensorrt_llm_counters.counters_of({7: iteration(7)}, before=5) is None
    assert tensorrt_llm_counters.counters_of({7: iteration(7)}, before=6) is not None
    assert tensorrt_llm_counters.counters_of({}) is None


def test_a_number_that_tensorrt_llm_skips_when_it_was_idle_is_not_a_lost_one() -> None:
    first = {"iter": 3, "inflightBatchingStats": {"numContextRequests": 2, "numGenRequests": 0}}
    found = tensorrt_llm_counters.counters_of({1: iteration(1), 3: first, 4: iteration(4)})
    assert found is not None
    assert found.acceptance == AcceptanceCounts(steps=6, drafted=16, accepted=10, drafts=4)
    assert tensorrt_llm_counters.counters_of({1: iteration(1), 4: {**first, "iter": 4}}) is None
