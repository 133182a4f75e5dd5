"""How fast a CPU multiplies with float32 weights that lie in memory in three ways, for a few rows at a time.

    python benchmarks/weight_layouts.py [--threads 2] [--json FILE]

The matrices of the demo target's thirty layers, each used once per pass, so that they come from memory and not from the
caches: row by row, as checkpoints have them; column by column; packed by oneDNN. Milliseconds per pass (median of
rounds, in which each has its turn), for as many rows as a plain step and verifications have. `linear` chooses by this.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

import torch

from specbench.decoder.models.linear import Linear, PackedLinear, PlainLinear
from specbench.sweep.manifest import describe_hardware

LAYERS, SHAPES = 30, ((576, 960), (576, 576), (576, 1536), (576, 1536), (1536, 576))
"""(in, out): queries, keys and values; output; gate; up; down."""

ROWS, ROUNDS = (1, 2, 3, 5, 8, 16), 9


def forms(weight: torch.Tensor) -> dict[str, Linear]:
    return {
        "row by row": PlainLinear(weight.contiguous()),
        "column by column": PlainLinear(weight.t().contiguous().t()),
        "packed": PackedLinear(weight),
    }


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    layers = [[forms(torch.randn(out, width) / 50) for width, out in SHAPES] for _ in range(LAYERS)]
    results = []
    for rows in ROWS:
        x = {width: torch.randn(rows, width) for width, _ in SHAPES}
        times: dict[str, list[float]] = {name: [] for name in layers[0][0]}
        for _ in range(ROUNDS):
            for name, taken in times.items():
                begun = time.perf_counter()
                for layer in layers:
                    for (width, _), matrix in zip(SHAPES, layer, strict=True):
                        matrix[name](x[width])
                taken.append(1e3 * (time.perf_counter() - begun))
        results.append({"rows": rows, "ms": {name: round(median(taken), 1) for name, taken in times.items()}})
        print(results[-1], flush=True)
    if options.json:
        kind, simd = describe_hardware()["kind"], torch.backends.cpu.get_cpu_capability()
        report = {"machine": f"{kind}, {simd}", "threads": options.threads, "results": results}
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
