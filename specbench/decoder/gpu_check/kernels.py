"""Kernels against their plain-torch twins. A kernel adds one line here, and its own check beside it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import torch

from specbench.decoder.gpu_check.exactness import Check

CHECKS: dict[str, str] = {}
"""Kernel -> `module:function`, imported when it is checked: function(device) returns a Check against its twin."""


def kernel_checks(device: torch.device) -> list[Callable[[], Check]]:
    """One call per kernel."""
    return [lambda where=where: _function(where)(device) for where in CHECKS.values()]  # type: ignore[misc]


def _function(where: str) -> Callable[[torch.device], Check]:
    module, _, name = where.partition(":")
    function: Callable[[torch.device], Check] = getattr(import_module(module), name)
    return function
