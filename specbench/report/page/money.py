"""What the page's sliders start from; the page reckons the rest with the formulas of analysis/cost.py."""

from __future__ import annotations

from typing import Any

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.cost import MOST, Economics
from specbench.analysis.summary import RunSummary
from specbench.analysis.verdict import outcome


def money(summary: RunSummary) -> dict[str, Any]:
    """`economics` as the run was told, `least_gpus` that one server used, `most` of each, and the cells with a rate.

    A cell has a `saving` where its speedup is evidence, and saves GPUs where that is `shown`: the table's own rules.
    `together`: whether the verdict enables it for all workloads, and not for some alone.
    """
    config = summary.manifest.get("config", {})
    economics = Economics.from_config(config)
    rates = {(c.workload, c.batch_size): c.output_tokens_per_s for c in summary.cells if c.is_baseline}
    return {
        "economics": {name: _short(getattr(economics, name)) for name in Economics.__dataclass_fields__},
        "together": summary.decision.method is not None,
        "least_gpus": config.get("tensor_parallel") or 1,
        "most": MOST,
        "rows": [
            {
                "workload": c.workload,
                "arm": c.label,
                "batch": c.batch_size,
                "rate": c.output_tokens_per_s,
                "baseline": rates.get((c.workload, c.batch_size)),
                "plain": c.is_baseline,
                "saving": c.saving_percent,
                "shown": c.saving_percent is not None and (c.speedup_ci_low or 0) > 1,
                "void": not c.is_sound,
                "enabled": _is_enabled(c, summary),
            }
            for c in summary.cells
            if c.output_tokens_per_s is not None and not c.as_deployed and not c.again
        ],
    }


def _is_enabled(c: CellSummary, summary: RunSummary) -> bool:
    """By the verdict; where that enables nothing, by its workload's own."""
    d = summary.decision if summary.decision.method is not None else summary.by_workload[c.workload]
    return d.enables(c) and outcome(c) == "gain"


def _short(value: Any) -> Any:
    """5000 for 5000.0, as people type it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
