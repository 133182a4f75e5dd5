"""CUDA graphs of forward passes: the hundreds of launches of a pass over a few tokens become one.

A pass is captured when its shape first comes, and replayed from then on, with its inputs copied to where the captured
one reads them. What it sees of the cache it finds by positions, on the device, so one graph holds for texts of any
length.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

from specbench.decoder.cache import CacheView

Pass = Callable[[Tensor, CacheView], tuple[Tensor, ...]]
"""Tokens and the view that they enter, to tensors."""

Result = TypeVar("Result")

_capturing: ContextVar[bool] = ContextVar("_capturing", default=False)


class Graphs:
    """The graphs of one model, for all shapes of passes and all caches."""

    def __init__(self) -> None:
        self._graphs: dict[Hashable, _Graph] = {}

    def run(self, work: Pass, kind: Hashable, tokens: Tensor, view: CacheView) -> tuple[Tensor, ...]:
        """What work(tokens, view) gives. kind: passes that do different work over inputs of one shape differ in it"""
        if _capturing.get():  # a pass that is part of something larger, and of its graph
            return work(tokens, view)
        key = (kind, tokens.shape, view.entries.data_ptr())
        if key not in self._graphs:
            self._graphs[key] = _Graph(work, tokens, view)
        return self._graphs[key].run(tokens, view)


class _Graph:
    def __init__(self, work: Pass, tokens: Tensor, view: CacheView) -> None:
        self._inputs = tokens.clone(), view.positions.clone(), view.flat_slots.clone()
        own_tokens, positions, flat_slots = self._inputs
        # Kept, for as long as the graph writes to this cache its memory must be nobody else's.
        self._view = replace(view, positions=positions, flat_slots=flat_slots)
        self._replay, self._results = capture(lambda: work(own_tokens, self._view))

    def run(self, tokens: Tensor, view: CacheView) -> tuple[Tensor, ...]:
        for own, given in zip(self._inputs, (tokens, view.positions, view.flat_slots), strict=True):
            own.copy_(given)
        self._replay()
        return tuple(result.clone() for result in self._results)  # the next replay writes over them


def capture(work: Callable[[], Result]) -> tuple[Callable[[], None], Result]:
    """A call that does `work` again, and where its results will be. `work` is done once here, to warm up."""
    larger = _capturing.set(True)
    try:
        return _capture(work)
    finally:
        _capturing.reset(larger)


def _capture(work: Callable[[], Result]) -> tuple[Callable[[], None], Result]:
    here = torch.cuda.current_stream()
    aside, pool, _ = _place(torch.cuda.current_device())
    aside.wait_stream(here)
    with torch.cuda.stream(aside):
        work()  # kernels are compiled, and libraries set up, outside of the capture
    here.wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=aside):
        results = work()
    return graph.replay, results


@cache
def _place(device: int) -> tuple[Any, Any, Any]:
    """Of all graphs of a GPU: the stream that they are captured on, since cuBLAS keeps a workspace for each stream; the
    pool of their memory, one since they never run side by side; and a graph that stays. Once all graphs in a pool are
    gone, PyTorch captures no other in it.
    """
    stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    pool, keeper = torch.cuda.graph_pool_handle(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(keeper, pool=pool, stream=stream):
        torch.zeros(1, device="cuda")
    return stream, pool, keeper
