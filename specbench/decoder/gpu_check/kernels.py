"""Kernels against their plain-torch twins, and against what the memory can do. A kernel adds one line here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specbench.decoder.gpu_check.exactness import Check
from specbench.decoder.gpu_check.figures import Figure
from specbench.decoder.gpu_check.timing import seconds
from specbench.decoder.graphs import capture

if TYPE_CHECKING:  # which imports Triton, and that is not everywhere
    from specbench.decoder.gpu_check.cases import Case, Shape

_CASES = "specbench.decoder.gpu_check.cases"

CHECKS: dict[str, str] = {
    "attention": f"{_CASES}:attention_case",
    "add and norm": f"{_CASES}:norm_case",
    "rotate and write": f"{_CASES}:rotary_case",
    "silu and product": f"{_CASES}:silu_case",
    "greedy verification": f"{_CASES}:greedy_case",
    "rejection": f"{_CASES}:rejection_case",
    "rejection, warped": f"{_CASES}:warped_rejection_case",
    "rejection, one-hot": f"{_CASES}:one_hot_rejection_case",
}
"""Kernel -> `module:function`, imported when it is checked: function(shape, device) returns a `Case`."""

_CALLS = 20
"""Of a kernel, in the graph that is timed."""

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Of differences, beside the larger of the twin's number and 1: a few last places, and the order of sums."""


def kernel_checks(device: torch.device) -> dict[str, Callable[[], Check]]:
    """One call per kernel, by name. Without a GPU Triton interprets the kernels, on tiny shapes."""
    if find_spec("triton") is None:
        skipped = Check("kernels", None, f"not checked, for Triton is not here: {', '.join(CHECKS)}")
        return {"kernels": lambda: skipped}
    if device.type == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # which Triton reads when it is imported
    return {f"kernel {name}": partial(_check, name, device) for name in CHECKS}


def kernel_times(device: torch.device, bandwidth: float, repeats: int) -> Iterator[Figure]:
    """On a GPU: each kernel and its twin in the shapes of Llama-3.1-8B, and their share of `bandwidth` (bytes/s): above
    1 where what they read is still in the GPU's cache from the call before.

    A kernel is timed in a CUDA graph, as an engine runs it: by itself it takes as long as it takes to start it. Twins
    are started by the host, operation by operation.
    """
    from specbench.decoder.gpu_check.cases import LLAMA_8B

    for name in CHECKS:
        case = _case(name, LLAMA_8B, device)
        kernel, twin = _in_graph(case.kernel, device, repeats), seconds(case.twin, device, repeats=repeats)
        for what, took in ((f"kernel in a graph, {name}", kernel), (f"twin, {name}", twin)):
            yield Figure(
                what,
                "kernels in the shapes of Llama-3.1-8B",
                took * 1e3,
                "ms",
                LLAMA_8B.batch,
                LLAMA_8B.gamma,
                LLAMA_8B.context,
                of_bandwidth=case.moved / (bandwidth * took),
            )


def _in_graph(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median time of one call, of many in a row."""

    def many() -> None:
        for _ in range(_CALLS):
            work()

    replay, _ = capture(many)
    return seconds(replay, device, repeats=repeats) / _CALLS


def worst_difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, beside the larger of the twin's number and 1; infinite between different tokens."""
    if not theirs.is_floating_point():
        return 0.0 if torch.equal(ours, theirs) else float("inf")
    theirs = theirs.double()
    return float(((ours.double() - theirs).abs() / theirs.abs().clamp_min(1)).nan_to_num_(float("inf")).max())


def _check(name: str, device: torch.device) -> Check:
    from specbench.decoder.gpu_check.cases import LLAMA_8B, TINY

    shape = TINY if device.type == "cpu" else LLAMA_8B
    case = _case(name, shape, device)
    pairs = zip(case.kernel(), case.twin(), strict=True)
    worst = max(worst_difference(ours, theirs) for ours, theirs in pairs)
    how = str(shape.dtype).removeprefix("torch.") + (", interpreted" if device.type == "cpu" else "")
    detail = f"differs from its twin by at most {worst:.2g} in {how}"
    return Check(f"kernel {name}", worst <= TOLERANCE[shape.dtype], detail)


def _case(name: str, shape: Shape, device: torch.device) -> Case:
    module, _, function = CHECKS[name].partition(":")
    case: Case = getattr(import_module(module), function)(shape, device)
    return case
