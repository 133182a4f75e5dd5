"""What the page's scripts draw and reckon with, as one JSON value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.json_values import to_json_value
from specbench.analysis.summary import RunSummary
from specbench.analysis.verdict import outcome
from specbench.report import figures
from specbench.report.open_loop import open_loop_rows
from specbench.report.page.arms import arm_records
from specbench.report.page.money import money
from specbench.report.page.telemetry import telemetry
from specbench.store.measurement import Measurement

Fact = tuple[str, str]
"""A label and a figure as it is written everywhere: what a chart tells where the pointer or the keyboard's focus is."""


def page_data(summary: RunSummary, measurements: Sequence[Measurement]) -> dict[str, Any]:
    """Lists of marks by chart; a mark has its place, its `arm`, `name` and `facts`.

    The baseline's other forms (as deployed, again) stand in the tables alone.
    """
    cells = [c for c in summary.cells if not c.as_deployed and not c.again]
    data = {
        "arms": arm_records(cells),
        "cells": [_cell(c) for c in cells if c.status == "ok"],
        "acceptance": list(_by_position(cells)),
        "categories": list(_by_group(cells, "acceptance_by_category")),
        "output_positions": list(_by_group(cells, "acceptance_by_output_position")),
        "phases": list(_phases(cells)),
        "steps": list(_steps(cells)),
        "kv": list(_kv_capacity(cells)),
        "telemetry": telemetry(measurements),
        "money": money(summary),
    }
    return {key: to_json_value(value) for key, value in data.items()}


def _identity(c: CellSummary, *, loaded: bool = True) -> dict[str, Any]:
    load = f", {c.load_in_words}" if loaded else ""
    return {"workload": c.workload, "method": c.method, "arm": c.label, "name": f"{c.label}{load}, {c.workload}"}


def _cell(c: CellSummary) -> dict[str, Any]:
    return _identity(c) | {
        "gamma": c.gamma,
        "batch": c.batch_size,
        "rate": c.request_rate,
        "speculative": c.is_speculative,
        "speedup": c.speedup,
        "low": c.speedup_ci_low,
        "high": c.speedup_ci_high,
        "wide": c.speedup_ci_low is not None and not c.has_interval,
        "outcome": outcome(c),
        "void": c.is_void,
        "divergent": c.equivalence == "DIVERGENT",
        "perUser": c.per_user_tokens_per_s,
        "throughput": c.output_tokens_per_s,
        "ttft": c.ttft_ms_p99,
        "latency": c.e2e_ms_p99,
        "goodput": c.goodput_percent,
        "facts": _facts(c),
    }


def _facts(c: CellSummary) -> list[Fact]:
    if c.is_open_loop:
        (row,) = open_loop_rows([c])
        return [(key, value) for key, value in row.items() if key != "method"]
    facts = [
        ("speedup [95%]", figures.speedup(c)),
        ("tokens per step (AL)", figures.acceptance_length_in_full(c)),
        ("output tokens/s", figures.throughput(c)),
        ("tokens/s per user", figures.number(c.per_user_tokens_per_s, 1)),
        ("TPOT p50", _milliseconds(c.tpot_ms_p50)),
        ("TTFT p50", _milliseconds(c.ttft_ms_p50)),
        (f"{c.currency or 'cost'} per M tokens", figures.money(c.cost_per_million_output_tokens)),
        ("outputs", c.equivalence.replace("_", " ").lower()),
    ]
    if c.ready_draft_rate is not None:
        facts.append(("drafts ready in time", figures.percent(c.ready_draft_rate)))
        facts.append(("with a second device, modelled", f"{figures.number(c.second_device_gain, 2)}× draft_model"))
    return [*facts, ("marks", ", ".join(m.code for m in c.marks))] if c.marks else facts


def _milliseconds(value: float | None) -> str:
    return figures.NOT_REPORTED if value is None else f"{figures.number(value, 1)} ms"


def _one_load(cells: Iterable[CellSummary]) -> list[CellSummary]:
    """Each arm at its smallest load on each workload: acceptance is a matter of texts, not of batch mates."""
    first: dict[tuple[str, str], CellSummary] = {}
    for c in cells:
        if c.position_acceptance or c.acceptance_by_category:
            first.setdefault((c.workload, c.label), c)
    return list(first.values())


def _by_position(cells: Iterable[CellSummary]) -> Iterable[dict[str, Any]]:
    for c in _one_load(cells):
        shares = c.position_acceptance or ()
        given = c.conditional_acceptance or (None,) * len(shares)
        for position, (share, conditional) in enumerate(zip(shares, given, strict=False), start=1):
            facts = [
                ("draft position", str(position)),
                ("accepted, of all steps", figures.percent(share)),
                ("accepted, once the ones before were", figures.percent(conditional)),
            ]
            place = {"position": position, "share": share, "conditional": conditional}
            yield _identity(c, loaded=False) | place | {"facts": facts}


def _by_group(cells: Iterable[CellSummary], field: str) -> Iterable[dict[str, Any]]:
    for c in _one_load(cells):
        for group, length in (getattr(c, field) or {}).items():
            if length is not None:
                facts = [("of", group), ("tokens per step (AL)", figures.number(length, 2))]
                yield _identity(c, loaded=False) | {"group": group, "length": length, "facts": facts}


def _phases(cells: Iterable[CellSummary]) -> Iterable[dict[str, Any]]:
    for c in cells:
        for phase, percent in (c.phase_percent or {}).items():
            facts = [("phase", phase), ("share of the engine's time", figures.percent(percent / 100))]
            if (spent := (c.step_ms or {}).get(phase)) is not None:
                facts.append(("per step", f"{spent:.2f} ms"))
            if phase == "verify" and c.verify_bandwidth_percent is not None:
                facts.append(("of the memory's speed", figures.percent(c.verify_bandwidth_percent / 100)))
            yield _identity(c) | {"load": c.load, "phase": phase, "percent": percent, "facts": facts}


def _steps(cells: Iterable[CellSummary]) -> Iterable[dict[str, Any]]:
    for c in cells:
        if c.step_cost_ratio is not None and c.mean_acceptance_length is not None:
            facts = [
                ("a step yields, tokens (AL)", figures.number(c.mean_acceptance_length, 2)),
                ("a step costs, plain steps", figures.number(c.step_cost_ratio, 2)),
                ("of it drafting", figures.number(c.step_cost_draft, 2)),
                ("of it verifying", figures.number(c.step_cost_verify, 2)),
                ("known from", str(c.step_cost_basis)),
            ]
            place = {"load": c.load, "cost": c.step_cost_ratio, "yields": c.mean_acceptance_length}
            yield _identity(c) | place | {"facts": facts}


def _kv_capacity(cells: Iterable[CellSummary]) -> Iterable[dict[str, Any]]:
    """By arm: the smallest that any launch had, as a launch serves every load."""
    least: dict[str, CellSummary] = {}
    for c in cells:
        if c.kv_capacity_tokens is not None:
            least[c.label] = min(c, least.get(c.label, c), key=lambda x: x.kv_capacity_tokens or 0)
    plain = next((c.kv_capacity_tokens for c in least.values() if c.is_baseline), None)
    for c in least.values():
        tokens = c.kv_capacity_tokens or 0
        lost = 1 - tokens / plain if plain else None
        facts = [("KV cache, tokens", figures.number(tokens, 0)), ("lost to speculation", figures.percent(lost))]
        yield _identity(c, loaded=False) | {"name": c.label, "tokens": tokens, "lost": lost, "facts": facts}
