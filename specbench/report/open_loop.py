"""The table of an open loop: what users waited at each rate, and how many were served as promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.analysis.cell_summary import CellSummary
from specbench.report import figures

NOTE = (
    "Requests came at a given rate, so throughput is theirs: arms differ in latency, counted from when each request "
    "was due. faster: the baseline's mean end-to-end latency over the arm's."
)


def open_loop_rows(cells: Sequence[CellSummary]) -> list[Mapping[str, str]]:
    """A row per open-loop cell, by heading; goodput is there where an SLO is."""
    with_slo = any(c.goodput_requests_per_s is not None for c in cells)
    return [_row(c, with_slo=with_slo) for c in cells if c.is_open_loop]


def narrow_open_loop_rows(cells: Sequence[CellSummary]) -> list[Mapping[str, str]]:
    """The same in 80 columns: the tail of what users wait for, where a queue shows."""
    wide = open_loop_rows(cells)
    return [
        {
            "method": row["method"],
            "req/s": row["req/s"],
            "TTFT\np99": figures.number(c.ttft_ms_p99, 0),
            "TPOT\np50": figures.number(c.tpot_ms_p50, 1),
            "E2E\np50": figures.number(c.e2e_ms_p50, 0),
            "E2E\np99": figures.number(c.e2e_ms_p99, 0),
            "faster": row["faster"],
            **({"goodput/s": row["goodput/s"]} if "goodput/s" in row else {}),
            "outputs": row["outputs"],
        }
        for c, row in zip((c for c in cells if c.is_open_loop), wide, strict=True)
    ]


def _row(c: CellSummary, *, with_slo: bool) -> Mapping[str, str]:
    row = {
        "method": c.label,
        "req/s": figures.number(c.request_rate, 2),
        "served/s": figures.number(c.requests_per_s, 2),
        "TTFT ms p50 / p99": _pair(c.ttft_ms_p50, c.ttft_ms_p99, 0),
        "TPOT ms p50 / p99": _pair(c.tpot_ms_p50, c.tpot_ms_p99, 1),
        "E2E ms p50 / p99": _pair(c.e2e_ms_p50, c.e2e_ms_p99, 0),
        "faster": _faster(c),
    }
    if with_slo:
        row["goodput/s"] = _goodput(c)
    return row | {"outputs": c.equivalence if c.status == "ok" else "failed"}


def _pair(low: float | None, high: float | None, decimals: int) -> str:
    return f"{figures.number(low, decimals)} / {figures.number(high, decimals)}"


def _faster(c: CellSummary) -> str:
    star = "*" if c.marks else ""
    if c.latency_speedup_ci_low is None or c.latency_speedup_ci_high is None:
        return figures.number(c.latency_speedup, 2) + star
    low, high = c.latency_speedup_ci_low, c.latency_speedup_ci_high
    shown = f"{low:.2f}, {high:.2f}" if high <= 10 * low else "?"
    return f"{figures.number(c.latency_speedup, 2)} [{shown}]{star}"


def _goodput(c: CellSummary) -> str:
    share = figures.percent(None if c.goodput_percent is None else c.goodput_percent / 100)
    kept = {True: ", kept", False: ", missed", None: ""}[c.slo_met]
    return f"{figures.number(c.goodput_requests_per_s, 2)} ({share}{kept})"
