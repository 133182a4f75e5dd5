"""The few figures that stand beside the verdict: what it gains, what it saves, whether outputs changed, how sure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import RunSummary
from specbench.analysis.verdict import outcome
from specbench.equivalence.greedy import divergence_bound
from specbench.report import figures


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """label: what it is;  value: as large print;  note: what it is of"""

    label: str
    value: str
    note: str


def key_figures(summary: RunSummary) -> list[KeyFigure]:
    """Of the cells that are enabled; where nothing is, of every speculative cell. Empty without one."""
    speculative = [c for c in summary.cells if c.is_speculative and c.status == "ok"]
    chosen = [c for c in speculative if summary.decision.enables(c)]
    cells = chosen or speculative
    if not cells:
        return []
    what = f"{cells[0].label}, {_loads(cells)}" if chosen else f"all {len(cells)} speculative cells"
    found = (
        _faster(cells, what),
        _length(cells),
        _cost([c for c in chosen if outcome(c) == "gain"]),
        _outputs(cells),
        _sureness(cells),
    )
    return [figure for figure in found if figure is not None]


def _faster(cells: Sequence[CellSummary], what: str) -> KeyFigure | None:
    if cells[0].is_open_loop:
        value = _range((c.latency_speedup for c in cells if not c.is_void), "{:.2f}")
        return KeyFigure("Latency, plain ÷ speculative", f"{value}×", f"mean end to end; {what}") if value else None
    value = _range((c.speedup for c in cells if c.is_evidence), "{:.2f}")
    return KeyFigure("Speedup", f"{value}×", f"output tokens/s over plain decoding; {what}") if value else None


def _length(cells: Sequence[CellSummary]) -> KeyFigure | None:
    value = _range((c.mean_acceptance_length for c in cells), "{:.2f}")
    rate = _range((c.draft_acceptance_rate and c.draft_acceptance_rate * 100 for c in cells), "{:.0f}")
    note = f"{rate}% of drafted tokens accepted" if rate else "bonus token included"
    return KeyFigure("Tokens per step (AL)", value, note) if value else None


def _cost(cells: Sequence[CellSummary]) -> KeyFigure | None:
    value = _range((c.saving_percent for c in cells), "{:.0f}")
    if not value:
        return None
    price = _range((c.cost_per_million_output_tokens for c in cells), figures.money)
    note = f"{price} {cells[0].currency} per million output tokens" if price else "at any price: set one below"
    return KeyFigure("Saved per token", f"{value}%", note)


def _outputs(cells: Sequence[CellSummary]) -> KeyFigure:
    """The worst of the cells, and what so many prompts can show."""
    order = ("EXACT", "NEAR_TIE", "NOT_CHECKED", "DIVERGENT")
    worst = max(cells, key=lambda c: order.index(c.equivalence))
    prompts = min(c.equivalence_prompts for c in cells)
    if worst.equivalence in ("DIVERGENT", "NOT_CHECKED"):
        note = worst.equivalence_detail
    else:
        note = f"{prompts} prompts per cell: divergence, if any, is below {divergence_bound(prompts):.1%}"
    return KeyFigure("Outputs", worst.equivalence.replace("_", " ").lower(), note)


def _sureness(cells: Sequence[CellSummary]) -> KeyFigure:
    launches = _range((c.replicates for c in cells), "{:.0f}")
    bases = dict.fromkeys(c.speedup_ci_basis for c in cells if c.speedup_ci_basis)
    requests = sum(c.requests for c in cells)
    note = f"95% intervals over {' and '.join(bases)}" if bases else "no interval: too little was measured"
    value = "1 launch" if launches == "1" else f"{launches} launches"
    return KeyFigure("Rests on", f"{value} per arm", f"{requests:,} requests; {note}")


def _loads(cells: Sequence[CellSummary]) -> str:
    if cells[0].is_open_loop:
        return f"{_range((c.request_rate for c in cells), '{:g}')} requests/s"
    return f"batch size {_range((c.batch_size for c in cells), '{:.0f}')}"


def _range(values: Iterable[float | None], form: str | Callable[[float], str]) -> str:
    """`1.25`, or `1.08–1.25`; empty where nothing is known."""
    known = sorted(v for v in values if v is not None)
    write = form.format if isinstance(form, str) else form
    return "–".join(dict.fromkeys(map(write, (known[0], known[-1])))) if known else ""
