"""From a cell's raw measurements to its row: calls every metric once and puts the results side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from specbench.analysis import guards, marks
from specbench.analysis.acceptance import breaks_token_identity
from specbench.analysis.arm import Arm, LaunchSettings
from specbench.analysis.attached import attached_marks
from specbench.analysis.cell_acceptance import CellAcceptance
from specbench.analysis.cell_resources import cache_figures, resource_figures
from specbench.analysis.cell_step_cost import step_cost_figures
from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.cost import (
    Economics,
    cost_per_million_output_tokens,
    gpus_needed,
    payback_months,
    saving_percent,
)
from specbench.analysis.degenerate import degeneracy, was_truncated
from specbench.analysis.goodput import NO_SLO, Slo, goodput
from specbench.analysis.latency import PERCENTILES, Latencies, percentile
from specbench.analysis.memory_roof import NO_ROOF, Roof, above_memory_roof
from specbench.analysis.open_loop import completed_rate, ended_rate, latency_ratio, offered_rate, send_lag
from specbench.analysis.speedup import OverReplicates, Pair, Speedup, pair, speedup
from specbench.analysis.statistics import mean_of_known, replicate_interval
from specbench.analysis.throttling import throttled
from specbench.analysis.throughput import mean_over_replicates
from specbench.equivalence.greedy import Equivalence
from specbench.replay.timeline import chunk_sizes
from specbench.speculation import BASELINE
from specbench.store.measurement import Measurement


def summarize_cell(
    arm: Arm,
    baseline: Arm | None,
    equivalence: Equivalence,
    economics: Economics,
    settings: Mapping[str, LaunchSettings],
    over_replicates: OverReplicates = replicate_interval,
    slo: Slo = NO_SLO,
    roof: Roof = NO_ROOF,
) -> CellSummary:
    """The row of a cell. `baseline` is the arm without speculation under the same load, `settings` is by launch."""
    cell, failed = arm.cell, [m for m in arm.measurements if m.status == "failed"]
    identity: dict[str, Any] = {
        "backend": cell.backend,
        "target": cell.target,
        "workload": cell.workload,
        "method": cell.speculation.name,
        "gamma": cell.speculation.gamma,
        "schedule": cell.speculation.schedule,
        "adaptive": cell.speculation.adaptive,
        "tree": cell.speculation.tree,
        "cached_requests": cell.speculation.cached_requests or None,
        "as_deployed": cell.speculation.as_deployed,
        "again": cell.speculation.again,
        "drafter": cell.speculation.drafter,
        "batch_size": cell.batch_size,
        "request_rate": cell.request_rate,
        "temperature": cell.temperature,
        "error": failed[0].error if failed else None,
    }
    if not arm.ok:
        return CellSummary(**identity, status="failed", equivalence_detail=equivalence.detail)
    pairs = pair(arm.ok, baseline.ok) if baseline and not cell.speculation.is_baseline else []
    gain = speedup(pairs, {**arm.throughputs, **(baseline.throughputs if baseline else {})}, over_replicates)
    latency = arm.latencies
    acceptance = CellAcceptance.of(arm)
    plain = baseline.latencies if baseline else None
    launches = [settings[m.launch] for a in (arm, baseline) if a for m in a.ok if m.launch in settings]
    summary = CellSummary(
        **identity,
        status="ok",
        **_requests(arm),
        **_speed(arm, gain, latency),
        **acceptance.figures(),
        **_percentiles(latency),
        tokens_per_chunk=chunk_sizes(arm.traces) or None,
        **_service(arm, pairs, latency, slo),
        **step_cost_figures(arm, baseline, acceptance, latency, plain),
        **resource_figures(arm, settings),
        equivalence=equivalence.verdict,
        equivalence_detail=equivalence.detail,
        equivalence_prompts=equivalence.prompts,
        near_tie_requests=len(equivalence.near_ties),
        divergent_requests=len(equivalence.divergent),
        unprobed_requests=equivalence.unprobed,
        marks=(
            *_marks(arm, gain, acceptance, [partner for _, partner in pairs], (latency, plain), launches),
            *_guards(arm, pairs, acceptance, launches, roof),
        ),
    )
    return replace(summary, **_money(summary, _tokens_per_s(baseline) if baseline else None, economics))


def _guards(
    arm: Arm, pairs: Sequence[Pair], acceptance: CellAcceptance, launches: Sequence[LaunchSettings], roof: Roof
) -> Iterable[marks.Mark]:
    told = acceptance.every.counts if acceptance.every else None
    both = [pooled.counts for pooled in (acceptance.every, acceptance.counters) if pooled is not None]
    measured = [*arm.ok, *(partner for _, partner in pairs)]
    # A plain step makes one token; how many a speculative one makes may not be known.
    length = 1.0 if arm.cell.speculation.is_plain else told.mean_length() if told else None
    tokens_per_s = _tokens_per_s(arm)
    found = (
        guards.counts_impossible(both, acceptance.gamma),
        guards.counters_reset(measured),
        guards.other_traffic(measured),
        guards.lengths_disagree(arm.traces, told, acceptance.gamma) if told else None,
        guards.finish_reasons_differ(pairs),
        guards.repeats_prefill_faster(measured),
        guards.warm_up_unsettled(measured),
        guards.busy_machine(measured),
        throttled({BASELINE.label: [partner for _, partner in pairs], arm.cell.speculation.label: arm.ok}),
        guards.lossy(clause for launch in launches for clause in launch.lossy),
        guards.contaminated(clause for launch in launches for clause in launch.contaminated),
        above_memory_roof(tokens_per_s / length if tokens_per_s and length else None, arm.cell.batch_size, roof),
    )
    return (*(mark for mark in found if mark is not None), *attached_marks(arm.ok))


def _requests(arm: Arm) -> dict[str, Any]:
    traces = arm.traces
    return {
        "measurements": len(arm.ok),
        "replicates": len({m.replicate for m in arm.ok}),
        "requests": len(traces),
        "failed_requests": sum(t.error is not None for t in traces),
        "degenerate_requests": sum(degeneracy(t) is not None for t in traces),
        "truncated_requests": sum(was_truncated(t) for t in traces),
    }


def _tokens_per_s(arm: Arm) -> float | None:
    return mean_over_replicates((m.replicate, arm.throughputs[m.id].steady) for m in arm.ok)


def _speed(arm: Arm, gain: Speedup, latency: Latencies) -> dict[str, Any]:
    per_token = percentile(latency.tpot, 50)
    figures: dict[str, Any] = {
        "output_tokens_per_s": None if arm.cell.is_open_loop else _tokens_per_s(arm),
        "run_output_tokens_per_s": mean_over_replicates((m.replicate, arm.throughputs[m.id].whole_run) for m in arm.ok),
        "per_user_tokens_per_s": 1 / per_token if per_token else None,
    }
    if arm.cell.is_open_loop:  # as many tokens as arrive: no ratio of them says anything
        return figures
    if arm.cell.speculation.is_baseline:
        return figures | dict.fromkeys(("speedup", "speedup_ci_low", "speedup_ci_high", "run_speedup"), 1.0)
    return figures | {
        "speedup": gain.value,
        "speedup_ci_low": gain.interval.low if gain.interval else None,
        "speedup_ci_high": gain.interval.high if gain.interval else None,
        "speedup_ci_basis": gain.interval.basis if gain.interval else None,
        "speedup_sd_percent": None if gain.spread is None else gain.spread * 100,
        "run_speedup": gain.whole_run,
        "speedup_without_degenerate": gain.without_degenerate,
    }


def _percentiles(latency: Latencies) -> dict[str, Any]:
    values = {"ttft": latency.ttft, "tpot": latency.tpot, "itl": latency.itl, "e2e": latency.e2e}
    other_rules = {"itl_chunk": latency.itl_chunk, "itl_burst": latency.itl_burst}
    shown = [(name, seconds, q) for name, seconds in values.items() for q in PERCENTILES]
    shown += [(name, seconds, q) for name, seconds in other_rules.items() for q in (50, 99)]
    return {"tpot_ms_mean": _milliseconds(latency.mean_tpot)} | {
        f"{name}_ms_p{q}": _milliseconds(percentile(seconds, q)) for name, seconds, q in shown
    }


def _service(arm: Arm, pairs: Sequence[Pair], latency: Latencies, slo: Slo) -> dict[str, Any]:
    """How users were served: goodput, and in an open loop latency against the baseline's."""
    rates = [goodput(m.traces, arm.throughputs[m.id].window, slo) for m in arm.ok]
    known = [rate for rate in rates if rate is not None]
    figures: dict[str, Any] = {
        "goodput_requests_per_s": mean_of_known(rate.requests_per_s for rate in known),
        "goodput_percent": mean_of_known(rate.share * 100 for rate in known),
        "slo_met": slo.met_by(latency),
        "send_lag_ms_p99": _milliseconds(send_lag(arm.traces, 99)),
    }
    if not arm.cell.is_open_loop:
        return figures
    ratio = latency_ratio(pairs)
    ended = [ended_rate(m.traces) for m in arm.ok]
    return figures | {
        "goodput_requests_per_s": mean_of_known(
            good.share * rate for good, rate in zip(rates, ended, strict=True) if good and rate
        ),
        "offered_requests_per_s": mean_of_known(offered_rate(m.traces) for m in arm.ok),
        "requests_per_s": mean_of_known(completed_rate(m.traces) for m in arm.ok),
        "latency_speedup": 1.0 if arm.cell.speculation.is_baseline else ratio.value if ratio else None,
        "latency_speedup_ci_low": ratio.interval.low if ratio and ratio.interval else None,
        "latency_speedup_ci_high": ratio.interval.high if ratio and ratio.interval else None,
    }


def _money(cell: CellSummary, baseline_tokens_per_s: float | None, economics: Economics) -> dict[str, Any]:
    """A cell that is no evidence, or gives other outputs, saves nothing to count on; GPUs are saved where it gains."""
    needed = gpus_needed(cell.output_tokens_per_s, economics)
    figures: dict[str, Any] = {
        "currency": economics.currency if economics.gpu_price is not None else None,
        "cost_per_million_output_tokens": cost_per_million_output_tokens(cell.output_tokens_per_s, economics),
        "gpus_needed": needed,
    }
    sound = cell.is_evidence and not cell.owes_gain_to_degenerate and cell.equivalence != "DIVERGENT"
    if cell.is_baseline or cell.again or not sound:
        return figures
    figures["saving_percent"] = saving_percent(cell.speedup)
    before = gpus_needed(baseline_tokens_per_s, economics)
    if before is None or needed is None or (cell.speedup_ci_low or 0) <= 1:
        return figures
    return figures | {"gpus_saved": before - needed, "payback_months": payback_months(before, needed, economics)}


def _marks(
    arm: Arm,
    gain: Speedup,
    acceptance: CellAcceptance,
    partners: Sequence[Measurement],
    latencies: tuple[Latencies, Latencies | None],
    launches: Sequence[LaunchSettings],
) -> tuple[marks.Mark, ...]:
    """partners: the baseline's side of the pairs;  latencies: this cell's own, and the baseline's."""
    requests, cache, own = _requests(arm), cache_figures(arm), arm.cell.speculation.label
    partner_traces = [t for m in partners for t in m.traces]
    failures = {
        own: (requests["failed_requests"], requests["requests"]),
        BASELINE.label: (sum(t.error is not None for t in partner_traces), len(partner_traces)),
    }
    length = acceptance.every.counts.mean_length() if acceptance.every else None
    speculation = arm.cell.speculation
    off = speculation.schedule is not None and speculation.gamma_at(arm.cell.batch_size) == 0
    found = (
        # Without speculation, or where a schedule is off, 1 is as likely to be passed as not.
        marks.speedup_above_acceptance(gain.value, None if speculation.is_plain or off else length),
        marks.acceptance_above_gamma(length, acceptance.gamma),
        marks.counters_differ(acceptance.difference()),
        marks.token_identity(0 if acceptance.source != "requests" else sum(map(breaks_token_identity, arm.traces))),
        _client_lag(arm.ok, latencies[0], own) or _client_lag(partners, latencies[1], BASELINE.label),
        marks.failed_requests(failures),
        marks.failed_measurements(len(arm.measurements) - len(arm.ok), len(arm.measurements)),
        marks.no_steady_window(
            0 if arm.cell.is_open_loop else sum(t.window is None for t in arm.throughputs.values()), len(arm.ok)
        ),
        marks.no_baseline(not partners and not arm.cell.speculation.is_baseline),
        marks.degenerate_gain(gain.value, gain.without_degenerate),
        marks.all_degenerate(requests["degenerate_requests"], requests["requests"]),
        marks.preempted(cache["preemptions"]),
        marks.prefix_cache_hits(cache["prefix_cache_hit_percent"]),
        marks.settings_differ(sorted({d for launch in launches for d in launch.differences})),
    )
    return tuple(mark for mark in found if mark is not None)


def _client_lag(measurements: Sequence[Measurement], latency: Latencies | None, arm: str) -> marks.Mark | None:
    lags = [m.client_lag_p99 for m in measurements if m.client_lag_p99 is not None]
    return marks.client_lag(max(lags, default=None), percentile(latency.tpot, 50) if latency else None, arm)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
