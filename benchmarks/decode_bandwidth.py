"""How much of the memory's speed plain decoding reaches on this CPU: the step at batch 1, and its matrix products.

    python benchmarks/decode_bandwidth.py [--rounds 5] [--threads 2] [--json FILE]

Bytes that a pass has to read (weights, cache entries) over what could be read in its time, at the best rate of reading
a large matrix, measured in the same rounds. The products alone: each of the target's matrices once with one row.
Medians over rounds, in which each form of the weights has its turn.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

from specbench.decoder.engine import Engine
from specbench.decoder.gpu_check.timing import read_bandwidth
from specbench.decoder.load import load_engine
from specbench.decoder.models.linear import Linear
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.sweep.manifest import describe_hardware
from specbench.target import resolve_target

FORMS = {"float32": ("float32", None), "bfloat16": ("bfloat16", None), "int4": ("bfloat16", "int4")}
PROMPT, TOKENS = list(range(1000, 1064)), 32


@dataclass(frozen=True)
class Result:
    """step_ms: of plain decoding at batch 1 · products_ms: of its matrix products alone · step, products: shares of the
    bandwidth that they reach
    """

    weights: str
    step_ms: float
    products_ms: float
    step: float
    products: float


def step(engine: Engine) -> tuple[float, float]:
    """Seconds of a step, and bytes that it reads."""
    counters = engine.counters
    before = sum(counters.seconds.values()) - counters.seconds["prefill"], counters.passes, counters.verify_bytes
    engine.add(Request("", PROMPT, SamplingParams(0.0, max_tokens=TOKENS, ignore_eos=True)))
    while engine.has_work:
        engine.step()
    passes = counters.passes - before[1]
    seconds = sum(counters.seconds.values()) - counters.seconds["prefill"] - before[0]
    return seconds / passes, (counters.verify_bytes - before[2]) / passes


@torch.inference_mode()
def products(engine: Engine) -> tuple[float, int]:
    """Seconds of all matrix products with one row, and bytes of their weights."""
    model, shape = engine.target, engine.target.config
    widths = {"hidden": shape.hidden_size, "heads": shape.num_heads * shape.head_dim, "mlp": shape.intermediate_size}
    rows = {name: torch.randn(1, width).to(model.dtype) for name, width in widths.items()}
    each: list[tuple[Linear, torch.Tensor]] = []
    for layer in model.layers:
        each += [(layer.qkv, rows["hidden"]), (layer.output, rows["heads"]), (layer.gate, rows["hidden"])]
        each += [(layer.up, rows["hidden"]), (layer.down, rows["mlp"])]
    each.append((model.head, rows["hidden"]))
    begun = time.perf_counter()
    for _ in range(TOKENS):
        for product, x in each:
            product(x)
    return (time.perf_counter() - begun) / TOKENS, sum(product.nbytes for product, _ in each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="write the results here too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    engines = {
        name: load_engine(
            resolve_target("demo"), dtype=dtype, quantization=quantization, max_batch_size=1, max_model_len=256
        )
        for name, (dtype, quantization) in FORMS.items()
    }
    for engine in engines.values():
        step(engine)
    steps, alone = ({name: [] for name in FORMS} for _ in range(2))
    bandwidths = []
    for _ in range(options.rounds):
        bandwidths.append(read_bandwidth(torch.device("cpu"), 4096, repeats=5))
        for name, engine in engines.items():
            steps[name].append(step(engine))
            alone[name].append(products(engine))
    bandwidth = max(bandwidths)
    results = []
    for name in FORMS:
        (whole, read), (seconds, weights) = (
            (median(t for t, _ in found[name]), found[name][0][1]) for found in (steps, alone)
        )
        results.append(
            r := Result(name, 1e3 * whole, 1e3 * seconds, read / whole / bandwidth, weights / seconds / bandwidth)
        )
        print(
            f"{r.weights:9s} step {r.step_ms:5.1f} ms, {r.step:.0%} of {bandwidth / 1e9:.1f} GB/s   "
            f"products {r.products_ms:5.1f} ms, {r.products:.0%}",
            flush=True,
        )
    if options.json:
        report = {
            "machine": describe_hardware()["kind"],
            "threads": options.threads,
            "read_gb_per_s": bandwidth / 1e9,
            "results": [asdict(r) for r in results],
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
