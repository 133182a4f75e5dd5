"""Two structures of the event loop: each replica's queue of requests, and the heap of replicas by when they wake."""

from __future__ import annotations

from typing import Any

from specbench.planning.simulator.compiled import compiled
from specbench.planning.simulator.state import HEAP, NONE, State


@compiled
def push_back(pool: Any, replica: Any, i: int) -> None:
    pool[i].next = NONE
    if replica.tail == NONE:
        replica.head = i
    else:
        pool[replica.tail].next = i
    replica.tail = i


@compiled
def push_front(pool: Any, replica: Any, i: int) -> None:
    pool[i].next = replica.head
    replica.head = i
    if replica.tail == NONE:
        replica.tail = i


@compiled
def pop_front(pool: Any, replica: Any) -> int:
    i = int(replica.head)
    replica.head = pool[i].next
    if replica.head == NONE:
        replica.tail = NONE
    return i


@compiled
def schedule(state: State, r: int, wakes: float) -> None:
    """The loop comes to replica r then; r may have another time in the heap, which this replaces."""
    replica = state.replicas[r]
    if replica.place == NONE:
        replica.place = state.counts[HEAP]
        state.heap[replica.place] = r
        state.counts[HEAP] += 1
    state.wakes[r] = wakes
    _settle(state, r)


@compiled
def unschedule(state: State, r: int) -> None:
    """Take replica r out of the heap, wherever it is in it."""
    gap = state.replicas[r].place
    state.replicas[r].place = NONE
    state.counts[HEAP] -= 1
    last = state.heap[state.counts[HEAP]]
    if last != r:
        state.heap[gap] = last
        state.replicas[last].place = gap
        _settle(state, last)


@compiled
def _settle(state: State, r: int) -> None:
    """Move replica r up or down to where its time belongs."""
    heap, replicas, size = state.heap, state.replicas, state.counts[HEAP]
    k = replicas[r].place
    while k > 0:
        above = heap[(k - 1) // 2]
        if _before(state, above, r):
            break
        heap[k] = above
        replicas[above].place = k
        k = (k - 1) // 2
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and _before(state, heap[child + 1], heap[child]):
            child += 1
        below = heap[child]
        if _before(state, r, below):
            break
        heap[k] = below
        replicas[below].place = k
        k = child
    heap[k] = r
    replicas[r].place = k


@compiled
def _before(state: State, one: int, other: int) -> bool:
    """Where both wake at once, in the order of their numbers: whatever happened to the heap before."""
    a, b = state.wakes[one], state.wakes[other]
    return bool(a < b or (a == b and one < other))
