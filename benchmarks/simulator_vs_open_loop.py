"""The fleet simulator against a real server under open loops: fitted to every other rate, it predicts the rest.

    specbench sweep --config benchmarks/open_loop_vllm.yaml --output RUN
    python benchmarks/simulator_vs_open_loop.py RUN... [--json FILE]

Each run's rates are halved, alternately; each half predicts the other. The held-out half gives its arrivals and the
lengths of its prompts and outputs, and nothing else. Committed as benchmarks/results/simulator_vs_open_loop.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from specbench.planning.from_run import model_and_machine
from specbench.planning.simulator.open_loop import METRICS, STATISTICS, observed, predict, serve
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore

RESULT = Path(__file__).parent / "results" / "simulator_vs_open_loop.json"
WITHIN = 0.1
"""Of what was measured; or within its own 95 % interval."""


def open_loops(path: Path) -> list[Measurement]:
    return [m for m in RunStore.open(path).measurements() if m.status == "ok" and m.cell.is_open_loop]


def judge(path: Path) -> list[dict[str, Any]]:
    """A row per held-out loop, metric and statistic."""
    loops = open_loops(path)
    shape, machine, _ = model_and_machine(RunStore.open(path).manifest)
    rates = sorted({m.cell.request_rate or 0.0 for m in loops})
    rows = []
    for half in (0, 1):
        held_out = set(rates[half::2])
        served = serve([m for m in loops if m.cell.request_rate not in held_out], shape, machine)
        for loop in loops:
            if loop.cell.request_rate in held_out:
                predicted, seen = predict(served, loop), observed(loop)
                for name, (value, low, high) in seen.items():
                    error = predicted[name] / value - 1
                    rows.append(
                        {
                            "run": path.name,
                            "arm": loop.cell.speculation.label,
                            "request_rate": loop.cell.request_rate,
                            "requests": len(loop.traces),
                            "figure": name,
                            "measured_ms": round(1e3 * value, 2),
                            "low_ms": round(1e3 * low, 2),
                            "high_ms": round(1e3 * high, 2),
                            "predicted_ms": round(1e3 * predicted[name], 2),
                            "error_percent": round(100 * error, 2),
                            "holds": abs(error) <= WITHIN or low <= predicted[name] <= high,
                        }
                    )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    print("run\tarm\treq/s\tfigure\tmeasured ms [95 %]\tpredicted\terror\tholds")
    for r in rows:
        print(
            f"{r['run']}\t{r['arm']}\t{r['request_rate']:g}\t{r['figure']}\t{r['measured_ms']:g} "
            f"[{r['low_ms']:g}, {r['high_ms']:g}]\t{r['predicted_ms']:g}\t{r['error_percent']:+.1f} %\t"
            f"{'yes' if r['holds'] else 'NO'}"
        )
    for name in (f"{metric}_{statistic}" for metric in METRICS for statistic in STATISTICS):
        its = [r for r in rows if r["figure"] == name]
        mean = sum(abs(r["error_percent"]) for r in its) / len(its)
        print(f"{name}: mean error {mean:.1f} %, {sum(r['holds'] for r in its)} of {len(its)} hold")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--json", type=Path, default=RESULT, metavar="FILE")
    arguments = parser.parse_args()
    rows = [row for path in arguments.runs for row in judge(path)]
    show(rows)
    arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
