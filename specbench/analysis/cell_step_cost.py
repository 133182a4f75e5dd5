"""What a step with speculation costs beside a plain one, and where its time goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.analysis.arm import Arm
from specbench.analysis.breakeven import STEP_PHASES, StepCost, break_even_alpha, phase_step_cost, tpot_step_cost
from specbench.analysis.cell_acceptance import CellAcceptance
from specbench.analysis.latency import Latencies
from specbench.analysis.prepared import prepared_figures
from specbench.backends.base import EngineCounters


def step_cost_figures(
    arm: Arm, baseline: Arm | None, acceptance: CellAcceptance, latency: Latencies, plain: Latencies | None
) -> dict[str, Any]:
    """By column. latency: the arm's · plain: the baseline's, None where it has none"""
    phases = arm.phase_seconds()
    total = sum(phases.values())
    figures: dict[str, Any] = {"phase_percent": {p: s / total * 100 for p, s in phases.items()} if total else None}
    figures |= _profile(arm, phases) | prepared_figures([m.counters for m in arm.ok if m.counters is not None])
    if arm.cell.speculation.is_plain or baseline is None or plain is None:
        return figures
    cost = _measured_step_cost(arm, baseline, acceptance, latency, plain)
    if cost is None:
        return figures
    # E(α, γ) is the length of full drafts: one that finds nothing to propose has no α that would repay its step.
    full = acceptance.every is not None and acceptance.every.drafts_are_full(acceptance.gamma)
    return figures | {
        "step_cost_ratio": cost.ratio,
        "step_cost_draft": cost.draft,
        "step_cost_verify": cost.verify,
        "step_cost_basis": cost.basis,
        "alpha_break_even": break_even_alpha(cost.ratio, acceptance.gamma) if full else None,
    }


def _profile(arm: Arm, phases: Mapping[str, float]) -> dict[str, Any]:
    """Milliseconds of each part of an engine step, and the share of the memory's speed that verification reaches."""
    counted = [m.counters for m in arm.ok if m.counters is not None and m.counters.passes]
    if len(counted) < len(arm.ok) or not counted:
        return {}
    passes = sum(c.passes or 0 for c in counted)
    # What the memory could have read in the time that verification took. A GPU is done with it when accepting ends.
    possible = sum((c.read_bytes_per_s or 0.0) * _seconds(c, "verify", "accept") for c in counted)
    return {
        "step_ms": {phase: phases[phase] / passes * 1e3 for phase in STEP_PHASES if phase in phases} or None,
        "verify_bandwidth_percent": sum(c.verify_bytes or 0 for c in counted) / possible * 100 if possible else None,
    }


def _seconds(counters: EngineCounters, *phases: str) -> float:
    return sum((counters.phase_seconds or {}).get(phase, 0.0) for phase in phases)


def _measured_step_cost(
    arm: Arm, baseline: Arm, acceptance: CellAcceptance, latency: Latencies, plain: Latencies
) -> StepCost | None:
    # Phases cover every request, so steps must too; the baseline takes one step for each token after the prefill's.
    if acceptance.every is not None:
        plain_steps = sum(max(t.output_tokens - 1, 0) for t in baseline.traces)
        cost = phase_step_cost(
            arm.phase_seconds(), acceptance.every.counts.steps, baseline.phase_seconds(), plain_steps
        )
        if cost is not None:
            return cost
    length = acceptance.shown.counts.mean_length() if acceptance.shown else None
    if not latency.mean_tpot or not plain.mean_tpot or length is None:
        return None
    return tpot_step_cost(latency.mean_tpot, length, plain.mean_tpot)
