"""Marks: what makes a figure implausible, void, or in need of a caveat. A mark never changes the figure itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_LAG_SECONDS = 0.005
MOST_LAG_SHARE = 0.05
MOST_COUNTER_DIFFERENCE = 0.01
MOST_FAILED_SHARE = 0.05
MOST_CACHE_HITS_PERCENT = 1.0
# Timers and rounding may lift a true figure a little over its bound.
_SLACK = 1.01

VOIDING = frozenset(
    {
        "client_lag",
        "acceptance_above_gamma",
        "counters_differ",
        "many_failed_requests",
        "speedup_above_acceptance",
        "all_degenerate",
        "counts_impossible",
        "counters_reset",
        "other_traffic",
        "above_memory_roof",
        "contaminated",
        "lossy",
    }
)
"""Marks under which a cell is no evidence for a decision."""


@dataclass(frozen=True, slots=True)
class Mark:
    """code: stable, for machines;  text: a sentence for people."""

    code: str
    text: str


def speedup_above_acceptance(speedup: float | None, mean_acceptance_length: float | None) -> Mark | None:
    """A step yields AL tokens and is no faster than plain decoding: speedup above AL is noise or a bad baseline.

    mean_acceptance_length: over all requests, degenerate ones too, since speedup counts these
    """
    if speedup is None or mean_acceptance_length is None or speedup <= mean_acceptance_length * _SLACK:
        return None
    return Mark(
        "speedup_above_acceptance",
        f"Implausible: speedup {speedup:.2f} is above the acceptance length, {mean_acceptance_length:.2f} over all "
        "requests. A speculative step cannot be faster than a plain one: noise, or an unmatched baseline.",
    )


def acceptance_above_gamma(mean_acceptance_length: float | None, gamma: int) -> Mark | None:
    """A step commits gamma + 1 tokens at most. gamma: 0 where it is not known"""
    if not gamma or mean_acceptance_length is None or mean_acceptance_length <= gamma + 1 + 1e-9:
        return None
    return Mark(
        "acceptance_above_gamma",
        f"Impossible: acceptance length {mean_acceptance_length:.2f} is above gamma + 1 = {gamma + 1}.",
    )


def counters_differ(relative_difference: float | None) -> Mark | None:
    """Per-request sums and the engine's counters count the same steps, unless there is other traffic or a reset."""
    if relative_difference is None or relative_difference <= MOST_COUNTER_DIFFERENCE:
        return None
    return Mark(
        "counters_differ",
        f"Acceptance from requests and from engine counters differs by {relative_difference:.1%}: other traffic on the "
        "server, requests cut short, or counters that were reset.",
    )


def token_identity(broken: int) -> Mark | None:
    """broken: requests for which `acceptance.breaks_token_identity` holds."""
    if not broken:
        return None
    return Mark(
        "token_identity",
        f"In {broken} requests tokens are not 1 + steps + accepted, nor fewer by what may have cut the last step "
        "short: acceptance may be off.",
    )


def client_lag(lag_p99: float | None, tpot: float | None, arm: str) -> Mark | None:
    """The client's own event loop must not be what is measured. Seconds; `arm` is the one that was being measured."""
    if lag_p99 is None or lag_p99 <= MOST_LAG_SECONDS or (tpot is not None and lag_p99 <= MOST_LAG_SHARE * tpot):
        return None
    return Mark(
        "client_lag",
        f"Void: the replaying client lagged by {lag_p99 * 1e3:.1f} ms (p99, {arm}), above 5 ms and 5 % of TPOT. "
        "Give the client a core of its own.",
    )


def failed_requests(counts: Mapping[str, tuple[int, int]]) -> Mark | None:
    """counts: (failed, all) requests of each arm, by its name. Many failures in one arm void the comparison."""
    failed = {arm: (bad, every) for arm, (bad, every) in counts.items() if bad}
    if not failed:
        return None
    which = " and ".join(f"{bad} of {every} requests failed ({arm})" for arm, (bad, every) in failed.items())
    if any(bad > MOST_FAILED_SHARE * every for bad, every in failed.values()):
        return Mark("many_failed_requests", f"Void: {which}, more than {MOST_FAILED_SHARE:.0%}. See the engine's log.")
    return Mark("failed_requests", f"{which}; throughput counts what they streamed.")


def failed_measurements(failed: int, measurements: int) -> Mark | None:
    if not failed:
        return None
    return Mark("failed_measurements", f"{failed} of {measurements} measurements failed; the others stand here.")


def no_steady_window(without: int, measurements: int) -> Mark | None:
    if not without:
        return None
    return Mark(
        "no_steady_window",
        f"{without} of {measurements} measurements are too short for a steady window: run_output_tokens_per_s and "
        "run_speedup are of whole runs, latencies of all requests. Use more prompts or a smaller batch size.",
    )


def no_baseline(missing: bool) -> Mark | None:
    if not missing:
        return None
    return Mark("no_baseline", "No measurement of the baseline pairs with this cell, so there is no speedup.")


def all_degenerate(degenerate: int, requests: int) -> Mark | None:
    if not requests or degenerate < requests:
        return None
    return Mark("all_degenerate", f"All {requests} requests are loops or empty: no acceptance and no latency is shown.")


def owes_gain_to_degenerate(speedup: float | None, without_degenerate: float | None) -> bool:
    """Whether a gain is none once degenerate requests are left out: loops are easy to draft."""
    return speedup is not None and without_degenerate is not None and without_degenerate <= 1 < speedup


def degenerate_gain(speedup: float | None, without_degenerate: float | None) -> Mark | None:
    if not owes_gain_to_degenerate(speedup, without_degenerate):
        return None
    return Mark(
        "degenerate_gain",
        f"The speedup of {speedup:.2f} is owed to degenerate requests (loops or empty): without them it is "
        f"{without_degenerate:.2f}. Use prompts that the model answers soundly.",
    )


def preempted(preemptions: int | None) -> Mark | None:
    """A full KV cache throws requests out: what is measured then is its size as much as the method."""
    if not preemptions:
        return None
    return Mark(
        "preempted",
        f"The KV cache was full: requests were thrown out {preemptions} times and computed again. "
        "Give it more memory, or use a smaller batch size.",
    )


def prefix_cache_hits(percent: float | None) -> Mark | None:
    """Prompts that were seen before cost no prefill."""
    if percent is None or percent <= MOST_CACHE_HITS_PERCENT:
        return None
    return Mark(
        "prefix_cache_hits",
        f"{percent:.0f}% of prompt tokens came from the prefix cache: prefills are cheaper than with prompts not seen "
        "before.",
    )


def settings_differ(differences: Sequence[str]) -> Mark | None:
    """Settings that the engine did not resolve as asked stand beside every figure of the launch."""
    if not differences:
        return None
    return Mark(
        "settings_differ", f"Settings are not as asked for, or not alike in both arms: {'; '.join(differences)}."
    )
