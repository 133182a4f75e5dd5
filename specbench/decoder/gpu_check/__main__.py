"""Run every check and every timing, and keep one JSON file of what they found so far."""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

import specbench.decoder.gpu_check
from specbench.decoder.device import resolve_device, use_gpu
from specbench.decoder.gpu_check.exactness import Check, exactness, ways
from specbench.decoder.gpu_check.figures import Figure
from specbench.decoder.gpu_check.kernels import CHECKS, kernel_checks, kernel_times
from specbench.decoder.gpu_check.machine import describe
from specbench.decoder.gpu_check.models import PAIRS, TINY_PAIRS, Pair, random_llama
from specbench.decoder.gpu_check.opponent import generate
from specbench.decoder.gpu_check.show import KIND, lines, read
from specbench.decoder.gpu_check.speed import Scale, accepts, decoding, drafts, passes
from specbench.decoder.gpu_check.timing import copy_bandwidth
from specbench.store.atomic import replacing


def main() -> None:
    """Exit code 0; 3 where a check found an error; 5 where something could not be measured."""
    options = _parser().parse_args()
    if options.show:
        try:
            result = read(options.show)
        except ValueError as error:
            sys.exit(f"gpu-check: {error}")
    else:
        try:
            device = resolve_device(options.device)
        except ValueError as error:
            sys.exit(f"gpu-check: {error} To see that the script runs: --device cpu --tiny")
        if device.type == "cuda":
            use_gpu(device)
        try:
            result = gpu_check(device, tiny=options.tiny, minutes=options.minutes, output=options.output)
        except KeyboardInterrupt:
            kept = f"What there was is in {options.output}" if options.output else "Without --output nothing is kept"
            print(f"gpu-check: stopped. {kept}.", file=sys.stderr)
            sys.exit(130)
    print("\n".join(lines(result)))
    wrong = any(check["ok"] is False for check in result["checks"])
    missing = result["failures"] or not result.get("complete", True)
    sys.exit(3 if wrong else 5 if missing else 0)


def gpu_check(device: torch.device, *, tiny: bool, minutes: float, output: Path | None = None) -> dict[str, Any]:
    """The whole result, as JSON values; `output` has what there is of it at any time.

    What there is no time or memory for is among its `failures`. All that PyTorch does by itself comes first: where a
    kernel breaks the device for this process, nothing after it succeeds.
    """
    run = _Run(60 * minutes, output)
    of_kernels = kernel_checks(device)  # before anything imports Triton
    torch.set_float32_matmul_precision("highest")
    if tiny:
        torch.set_num_threads(1)  # models so small only lose by more
    bandwidth = copy_bandwidth(device, 1 << 24 if tiny else 1 << 31)
    run.begin(
        kind=KIND, tiny=tiny, machine=describe(device), copy_bytes_per_s=bandwidth, kernels=list(CHECKS), complete=False
    )
    if tiny:
        scale = Scale((1, 2), (1, 3), context=24, repeats=2, steps=3, bandwidth=bandwidth, decoded=(1, 2))
    else:
        scale = Scale(
            (1, 4, 16, 32, 64), (1, 3, 5), 512, repeats=15, steps=32, bandwidth=bandwidth, decoded=(1, 16, 64)
        )
    _check_and_measure(run, device, scale, tiny=tiny, on_kernels=False)
    run.check_all(of_kernels)
    if True in ways(device):
        run.measure("kernels", lambda: kernel_times(device, bandwidth, scale.repeats))
        _check_and_measure(run, device, scale, tiny=tiny, on_kernels=True)
    return run.end()


def _check_and_measure(run: _Run, device: torch.device, scale: Scale, *, tiny: bool, on_kernels: bool) -> None:
    run.check_all(exactness(device, tiny=tiny, on_kernels=on_kernels))
    for pair in TINY_PAIRS if tiny else PAIRS:
        _measure(run, pair, device, scale, on_kernels=on_kernels)


def _measure(run: _Run, pair: Pair, device: torch.device, scale: Scale, *, on_kernels: bool) -> None:
    """The decoder on the kernels, or in PyTorch; beside the latter transformers."""
    dtype = torch.bfloat16
    if on_kernels:
        pair = replace(pair, target=f"{pair.target}, on kernels", drafter=f"{pair.drafter}, on kernels")

    def ours() -> Iterator[Figure]:
        shapes = (pair.target_shape, pair.drafter_shape)
        target, drafter = (random_llama(shape, dtype, device, on_kernels=on_kernels) for shape in shapes)
        with torch.inference_mode():
            yield from passes(pair, target, scale)
            if not on_kernels:  # these are timed with the kernels themselves
                yield from accepts(pair, target, scale)
            yield from drafts(pair, drafter, scale)
            yield from decoding(pair, target, drafter, scale)

    run.measure(pair.target, ours)
    if not on_kernels:
        run.measure(f"{pair.target}, transformers", lambda: generate(pair, dtype, device, scale))


class _Run:
    """What was found so far. An error ends what raised it and nothing else, and once the time is up nothing is begun.

    seconds: how long there is · output: has the result after every check and figure, so that a script that is killed
    leaves what it had; None for no file
    """

    def __init__(self, seconds: float, output: Path | None = None) -> None:
        self._begun, self._seconds, self._output = time.monotonic(), seconds, output
        self._known: dict[str, Any] = {}
        self.checks: list[Check] = []
        self.figures: list[Figure] = []
        self.failures: list[dict[str, str]] = []

    def begin(self, **known: Any) -> None:
        """known: of the result, what is no check, figure or failure"""
        self._known = known
        try:
            self._save()
        except OSError as error:
            sys.exit(f"gpu-check: {self._output} cannot be written ({error.strerror}). Choose another --output.")

    def end(self) -> dict[str, Any]:
        """The result, with all that there is to it."""
        self._known["complete"] = True
        self._try_to_save()
        return self._result()

    def check_all(self, checks: Mapping[str, Callable[[], Check | list[Check]]]) -> None:
        """checks: by a name for what fails"""
        for name, check in checks.items():
            try:
                self._in_time()
                found = check()
            except Exception as error:
                self._failed(name, error)
            else:
                self.checks += [found] if isinstance(found, Check) else found
            self._clean()

    def measure(self, what: str, measure: Callable[[], Iterable[Figure]]) -> None:
        try:
            self._in_time()
            for figure in measure():
                self.figures.append(figure)
                self._try_to_save()
                self._in_time()
        except Exception as error:
            self._failed(what, error)
        self._clean()

    def _in_time(self) -> None:
        if time.monotonic() - self._begun > self._seconds:
            raise TimeoutError("the time is up (--minutes)")

    def _failed(self, what: str, error: Exception) -> None:
        self.failures.append({"what": what, "error": f"{type(error).__name__}: {error}"})

    def _clean(self) -> None:
        gc.collect()  # models that are held in a cycle: the next ones need their memory
        self._try_to_save()

    def _result(self) -> dict[str, Any]:
        return {
            **self._known,
            "seconds": time.monotonic() - self._begun,
            "checks": [asdict(check) for check in self.checks],
            "figures": [asdict(figure) for figure in self.figures],
            "failures": self.failures,
        }

    def _try_to_save(self) -> None:
        with suppress(OSError):  # a disk that is full by now: what was found is printed all the same
            self._save()

    def _save(self) -> None:
        if self._output is not None:
            with replacing(self._output) as partial:
                partial.write_text(json.dumps(self._result(), indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m specbench.decoder.gpu_check",
        description=specbench.decoder.gpu_check.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, cpu")
    parser.add_argument("--tiny", action="store_true", help="models and batches of a few seconds: does the script run?")
    parser.add_argument("--minutes", type=float, default=8.0, help="when to begin nothing more")
    parser.add_argument("--output", type=Path, help="write the result here, as JSON")
    parser.add_argument("--show", type=Path, help="print a result that was written, and measure nothing")
    return parser


if __name__ == "__main__":
    main()
