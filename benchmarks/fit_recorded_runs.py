"""How well the performance model, fitted to a quarter of a run's cells, predicts the others: on our committed runs.

    python benchmarks/fit_recorded_runs.py [--splits 20] [--json FILE]

Reads report.json of real runs: the reference decoder and vLLM, on a CPU. Committed as
benchmarks/results/fit_recorded_runs.json.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from held_out_cells import SEED, at_random, chosen, judge
from scipy.stats import t as student

from specbench.planning.cells import Observation, Point, arms, drafts_at_once
from specbench.planning.machine import UNKNOWN
from specbench.planning.parameters import Model
from specbench.planning.shape import ModelShape

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).parent / "results" / "fit_recorded_runs.json"
RUNS = ("example-grid", "example-vllm")

SMOLLM2_135M = {
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "vocab_size": 49152,
}
"""From the model's published config.json."""

PROMPT = 200.0
"""Reports do not keep lengths of prompts; what a prefill takes is fitted, so that little hangs on it."""


def read(run: str) -> tuple[list[Observation], float]:
    """Its cells, and the noise of one launch: standard deviation of ln throughput."""
    record = json.loads((ROOT / "reports" / run / "report.json").read_text(encoding="utf-8"))
    cells = [c for c in record["cells"] if c["output_tokens_per_s"]]
    told = [ratio_spread(c) for c in cells if c["gamma"] and _says_something(c)]
    # A ratio has the noise of two cells.
    noise = math.sqrt(np.mean(np.square(told)) / 2)
    shares = drafted_shares(cells)
    output = float(record["manifest"]["config"]["max_tokens"])
    return [_observation(c, output, noise, shares) for c in cells], noise


def ratio_spread(c: Mapping[str, Any]) -> float:
    """Standard deviation of ln speedup, from its 95 % interval: Student's t over replicates, else normal."""
    n = c["replicates"]
    half_width = math.log(c["speedup_ci_high"] / c["speedup_ci_low"]) / 2
    if n == 1:
        return half_width / 1.96
    return half_width * math.sqrt(n) / float(student.ppf(0.975, n - 1))


def _says_something(c: Mapping[str, Any]) -> bool:
    """Whether an interval from within one launch is one (`CellSummary.has_interval`)."""
    return bool(c["replicates"] > 1 or c["speedup_ci_high"] <= 10 * c["speedup_ci_low"])


def drafted_shares(cells: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """By method, tokens drafted per step over gamma."""
    found = defaultdict(list)
    for c in cells:
        if drafts_at_once(c["method"]):
            found[c["method"]].append((c["mean_acceptance_length"] - 1) / c["draft_acceptance_rate"] / c["gamma"])
    return {method: float(np.mean(shares)) for method, shares in found.items()}


def _observation(c: Mapping[str, Any], output: float, noise: float, shares: Mapping[str, float]) -> Observation:
    share = shares.get(c["method"], 1.0)
    point = Point(c["workload"], c["method"], c["gamma"], c["batch_size"], PROMPT, output, share)
    taken = max(1, c["measurements"])
    steps = round(c["requests"] * (output - 1) / c["mean_acceptance_length"] / taken) if c["gamma"] else 0
    clocked = c["step_cost_basis"] == "phases"
    return Observation(
        point,
        c["output_tokens_per_s"],
        noise / math.sqrt(taken),
        steps,
        tuple(steps * p for p in c["position_acceptance"] or ()) or None,
        c["mean_acceptance_length"] if c["gamma"] else None,
        c["step_cost_draft"] if clocked else None,
        c["step_cost_verify"] if clocked else None,
        (c["phase_percent"] or {}).get("prefill", 0.0) / 100 or None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20, help="random choices of each size")
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    rng, runs = np.random.default_rng(SEED), []
    for run in RUNS:
        grid, noise = read(run)
        model = Model(ModelShape.of(SMOLLM2_135M, 4, 4), UNKNOWN, arms(grid))
        quarter, half = round(len(grid) / 4), round(len(grid) / 2)
        results = [judge("all, predicted by themselves", model, grid, [range(len(grid))])]
        results.append(judge("one by one, for what each tells", model, grid, [chosen(model, grid, quarter)]))
        results += [judge("at random", model, grid, at_random(grid, n, arguments.splits, rng)) for n in (quarter, half)]
        runs.append({"run": run, "noise_percent": round(100 * noise, 2), "results": [asdict(r) for r in results]})
    record = {"seed": SEED, "runs": runs}
    print(json.dumps(record, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
