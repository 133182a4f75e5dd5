"""Run every check and every timing, and write one JSON file."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

import specbench.decoder.gpu_check
from specbench.decoder.gpu_check.exactness import Check, exactness, ways
from specbench.decoder.gpu_check.figures import Figure
from specbench.decoder.gpu_check.kernels import CHECKS, kernel_checks, kernel_times
from specbench.decoder.gpu_check.machine import describe
from specbench.decoder.gpu_check.models import PAIRS, TINY_PAIRS, Pair, random_llama
from specbench.decoder.gpu_check.opponent import generate
from specbench.decoder.gpu_check.show import KIND, lines, read
from specbench.decoder.gpu_check.speed import Scale, accepts, decoding, drafts, passes
from specbench.decoder.gpu_check.timing import copy_bandwidth


def main() -> None:
    """Exit code 0; 3 where a check found an error; 5 where something could not be measured."""
    options = _parser().parse_args()
    if options.show:
        try:
            result = read(options.show)
        except ValueError as error:
            sys.exit(f"gpu-check: {error}")
    else:
        device = torch.device(options.device)
        if device.type == "cuda":
            if not torch.cuda.is_available():
                sys.exit("gpu-check: PyTorch sees no GPU here. To see that the script runs: --device cpu --tiny")
            device = torch.device("cuda", device.index or 0)
            torch.cuda.set_device(device)  # graphs, streams and Triton's launches go by it
        result = gpu_check(device, tiny=options.tiny, minutes=options.minutes)
        if options.output:
            options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines(result)))
    wrong = any(check["ok"] is False for check in result["checks"])
    sys.exit(3 if wrong else 5 if result["failures"] else 0)


def gpu_check(device: torch.device, *, tiny: bool, minutes: float) -> dict[str, Any]:
    """The whole result, as JSON values. What there is no time or memory for is among its `failures`."""
    begun = time.monotonic()
    run = _Run(deadline=begun + 60 * minutes)
    torch.set_float32_matmul_precision("highest")
    if tiny:
        torch.set_num_threads(1)  # models so small only lose by more
    for check in (*exactness(device, tiny=tiny), *kernel_checks(device)):
        run.check(check)
    bandwidth = copy_bandwidth(device, 1 << 24 if tiny else 1 << 31)
    if tiny:
        scale = Scale((1, 2), (1, 3), context=24, repeats=2, steps=3, bandwidth=bandwidth)
    else:
        scale = Scale((1, 4, 16, 32, 64), (1, 3, 5), context=512, repeats=15, steps=32, bandwidth=bandwidth)
    if device.type == "cuda":
        run.measure("kernels", lambda: kernel_times(device, bandwidth, scale.repeats))
    for pair in TINY_PAIRS if tiny else PAIRS:
        _measure(run, pair, device, scale)
    return {
        "kind": KIND,
        "tiny": tiny,
        "machine": describe(device),
        "seconds": time.monotonic() - begun,
        "copy_bytes_per_s": bandwidth,
        "kernels": list(CHECKS),
        "checks": [asdict(check) for check in run.checks],
        "figures": [asdict(figure) for figure in run.figures],
        "failures": run.failures,
    }


def _measure(run: _Run, pair: Pair, device: torch.device, scale: Scale) -> None:
    dtype = torch.bfloat16

    def ours(pair: Pair, *, on_kernels: bool) -> Iterator[Figure]:
        shapes = (pair.target_shape, pair.drafter_shape)
        target, drafter = (random_llama(shape, dtype, device, on_kernels=on_kernels) for shape in shapes)
        with torch.inference_mode():
            yield from passes(pair, target, scale)
            if not on_kernels:  # these are timed with the kernels themselves
                yield from accepts(pair, target, scale)
            yield from drafts(pair, drafter, scale)
            yield from decoding(pair, target, drafter, scale)

    for on_kernels in ways(device):
        how = ", on kernels" if on_kernels else ""
        named = replace(pair, target=pair.target + how, drafter=pair.drafter + how)
        run.measure(named.target, partial(ours, named, on_kernels=on_kernels))
    run.measure(f"{pair.target}, transformers", lambda: generate(pair, dtype, device, scale))
    if device.type == "cuda":
        torch.cuda.empty_cache()


class _Run:
    """What was found so far. An error ends what raised it and nothing else."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self.checks: list[Check] = []
        self.figures: list[Figure] = []
        self.failures: list[dict[str, str]] = []

    def check(self, check: Callable[[], Check | list[Check]]) -> None:
        try:
            found = check()
        except Exception as error:
            self._failed("a check", error)
        else:
            self.checks += [found] if isinstance(found, Check) else found

    def measure(self, what: str, measure: Callable[[], Iterable[Figure]]) -> None:
        try:
            for figure in measure():
                self.figures.append(figure)
                if time.monotonic() > self._deadline:
                    raise TimeoutError("the time is up (--minutes)")
        except Exception as error:
            self._failed(what, error)

    def _failed(self, what: str, error: Exception) -> None:
        self.failures.append({"what": what, "error": f"{type(error).__name__}: {error}"})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m specbench.decoder.gpu_check",
        description=specbench.decoder.gpu_check.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, cpu")
    parser.add_argument("--tiny", action="store_true", help="models and batches of a few seconds: does the script run?")
    parser.add_argument("--minutes", type=float, default=8.0, help="when to stop measuring")
    parser.add_argument("--output", type=Path, help="write the result here, as JSON")
    parser.add_argument("--show", type=Path, help="print a result that was written, and measure nothing")
    return parser


if __name__ == "__main__":
    main()
