"""CUDA graphs are captured in one place, which outlives them. By a stand-in for `torch.cuda`, on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch

from specbench.decoder import graphs


class Driver:
    """The pools of PyTorch's allocator: how many graphs each has, and on what stream each graph was captured."""

    def __init__(self) -> None:
        self.graphs_in: dict[int, int] = {}
        self.captured_on: list[Stream] = []

    @contextmanager
    def graph(self, graph: Graph, pool: int, stream: Stream) -> Iterator[None]:
        # Where a pool's last graph has gone, PyTorch ends a capture: INTERNAL ASSERT FAILED, use_count > 0
        assert self.graphs_in.get(pool) != 0
        self.graphs_in[pool] = self.graphs_in.get(pool, 0) + 1
        graph.kept_in = self, pool
        self.captured_on.append(stream)
        yield


class Graph:
    kept_in: tuple[Driver, int]

    def replay(self) -> None: ...

    def __del__(self) -> None:
        driver, pool = self.kept_in
        driver.graphs_in[pool] -= 1


class Stream:
    def __init__(self, device: int = 0) -> None: ...

    def wait_stream(self, other: Stream) -> None: ...


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    driver, pools, zeros = Driver(), iter(range(100)), torch.zeros
    stands_in: dict[str, Any] = {
        "graph": driver.graph,
        "CUDAGraph": Graph,
        "Stream": Stream,
        "current_stream": Stream,
        "current_device": lambda: 0,
        "graph_pool_handle": lambda: next(pools),
        "stream": lambda stream: nullcontext(),
    }
    for name, value in stands_in.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch, "zeros", lambda *size, device: zeros(*size))
    graphs._place.cache_clear()
    yield driver
    graphs._place.cache_clear()


def test_when_all_graphs_are_gone_others_can_be_captured(driver: Driver) -> None:
    replay, result = graphs.capture(lambda: torch.ones(2))
    assert result.tolist() == [1, 1]
    assert driver.graphs_in == {0: 2}  # it, and the one that stays
    del replay
    assert driver.graphs_in == {0: 1}
    again, _ = graphs.capture(lambda: torch.ones(3))
    again()
    assert driver.graphs_in == {0: 2}


def test_all_graphs_are_captured_on_one_stream_which_they_warm_up_on(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed_up_on: list[Stream] = []

    def use(stream: Stream) -> nullcontext[None]:
        warmed_up_on.append(stream)
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "stream", use)
    kept = [graphs.capture(lambda: None) for _ in range(3)]
    assert len({*driver.captured_on, *warmed_up_on}) == 1
    assert len(warmed_up_on) == len(kept)
