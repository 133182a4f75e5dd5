"""What a step with speculation costs beside a plain one, and where its time goes."""

from __future__ import annotations

from typing import Any

from specbench.analysis.arm import Arm
from specbench.analysis.breakeven import StepCost, break_even_alpha, phase_step_cost, tpot_step_cost
from specbench.analysis.cell_acceptance import CellAcceptance
from specbench.analysis.latency import Latencies


def step_cost_figures(
    arm: Arm, baseline: Arm | None, acceptance: CellAcceptance, latency: Latencies, plain: Latencies | None
) -> dict[str, Any]:
    """By column. latency: the arm's · plain: the baseline's, None where it has none"""
    phases = arm.phase_seconds()
    total = sum(phases.values())
    figures: dict[str, Any] = {"phase_percent": {p: s / total * 100 for p, s in phases.items()} if total else None}
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
