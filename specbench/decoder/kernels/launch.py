"""Launching kernels, or recording what would be launched, so that it can be compiled on a machine without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

_recorded: ContextVar[list[Launch] | None] = ContextVar("_recorded", default=None)


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: arguments in the kernel's order, then its compile-time constants by name."""

    kernel: Any
    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    warps: int


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, warps: int = 4, **constants: Any) -> None:
    """Run a kernel over `grid`. arguments: tensors and numbers · constants: what is compiled into it"""
    recorded = _recorded.get()
    if recorded is not None:
        recorded.append(Launch(kernel, arguments, constants, warps))
    else:
        kernel[grid](*arguments, **constants, num_warps=warps)


@contextmanager
def recording() -> Iterator[list[Launch]]:
    """Launches within are listed and not run: call kernels with tensors of the device `meta`."""
    launches: list[Launch] = []
    token = _recorded.set(launches)
    try:
        yield launches
    finally:
        _recorded.reset(token)
