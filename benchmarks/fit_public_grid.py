"""How well the performance model, fitted to a few cells, predicts the others: on a grid that others measured.

    python benchmarks/fit_public_grid.py GRID.csv [--splits 20] [--json FILE]

GRID.csv has columns gamma, batch_size and output_tokens_per_s: Qwen3-235B-A22B on SGLang, gamma 1 to 6 by batch sizes 1
to 64, as reported in the pull request sgl-project/sglang#22246 (without gamma 0 and acceptance; eight GPUs of Hopper's
kind are an assumption, the middle of a wide prior). The figures are not ours to pass on, so the file is given.
Committed as benchmarks/results/fit_public_grid.json.
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from held_out_cells import SEED, at_random, chosen, judge

from specbench.planning.cells import Observation, Point, arms
from specbench.planning.machine import Machine
from specbench.planning.parameters import Model
from specbench.planning.shape import ModelShape

RESULT = Path(__file__).parent / "results" / "fit_public_grid.json"

QWEN3_235B = {
    "hidden_size": 4096,
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
}
"""From the model's published config.json."""

HOPPERS = Machine(bandwidth=4e12, flops=989e12, count=8, spread=0.5)
NOISE = 0.02
"""Of one measurement, as usual from launch to launch; the grid has one each."""
PROMPT, OUTPUT = 500.0, 2000.0
"""Not reported: of little weight in these throughputs."""

CHOSEN = (4, 5, 8, 12)
RANDOM = (4, 8, 12, 16)


def read(path: Path) -> list[Observation]:
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Observation(
                Point("grid", "eagle3", int(row["gamma"]), int(row["batch_size"]), PROMPT, OUTPUT),
                float(row["output_tokens_per_s"]),
                NOISE,
            )
            for row in csv.DictReader(file)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grid", type=Path)
    parser.add_argument("--splits", type=int, default=20, help="random choices of each size")
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    grid, rng = read(arguments.grid), np.random.default_rng(SEED)
    model = Model(ModelShape.of(QWEN3_235B), HOPPERS, arms(grid))
    order = chosen(model, grid, max(CHOSEN))
    results = [judge("all, predicted by themselves", model, grid, [range(len(grid))])]
    results += [judge("one by one, for what each tells", model, grid, [order[:cells]]) for cells in CHOSEN]
    results += [judge("at random", model, grid, at_random(grid, n, arguments.splits, rng)) for n in RANDOM]
    places = [(grid[i].point.gamma, grid[i].point.batch_size) for i in order]
    record = {"seed": SEED, "chosen": places, "results": [asdict(r) for r in results]}
    print(json.dumps(record, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
