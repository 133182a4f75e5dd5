"""What changes in a simulation: requests, replicas, who runs where. Records in flat arrays, for compiled functions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specbench.planning.simulator.fleet import Fleet

NONE = -1
"""No request, no replica, no session."""

DOWN = 1 << 40
"""Added to the load of a replica that has failed: more than any queue."""

HEAP, FREE, TURN, IN_FLIGHT, REFUSED, NEXT_OUTAGE = range(6)
"""Places in `State.counts`: replicas in the heap, free places in the pool, whose turn it is, requests in the fleet,
those that fit into no cache, the replica that fails or is repaired next."""

REQUEST = np.dtype(
    [
        ("arrival", "f8"),  # seconds, as all times here
        ("started", "f8"),  # when it first was in a step
        ("first", "f8"),  # when its first token was out
        ("session", "i8"),
        ("key", "i8"),  # of its random numbers, see `draws`
        ("prompt", "i4"),  # tokens, as all below
        ("output", "i4"),
        ("emitted", "i4"),
        ("to_prefill", "i4"),  # prompt, and after a preemption what it had emitted
        ("prefilled", "i4"),
        ("chunk", "i4"),  # of it, in the present step
        ("blocks", "i4"),  # of the cache, that it holds
        ("gamma", "i4"),  # in the present step
        ("kind", "i4"),  # row of `survival`
        ("next", "i4"),  # in its queue
        ("rung", "i4"),  # from here on: the threshold rule's, see decoder.policies.threshold
        ("drafted", "i4"),
        ("wait", "i4"),
        ("pause", "i4"),
        ("probes", "i4"),
        ("on_trial", "i4"),
        ("accepted", "f8"),
        ("judged", "f8"),
    ],
    align=True,
)

REPLICA = np.dtype(
    [
        ("running", "i8"),  # requests in its batch
        ("decoding", "i8"),  # of them, those that decode in the present step
        ("head", "i8"),  # first and last of its queue
        ("tail", "i8"),
        ("free", "i8"),  # blocks of the cache
        ("allocated", "i8"),  # blocks ever handed out
        ("place", "i8"),  # in the heap
        ("ends", "f8"),  # its present step
        ("seconds", "f8"),  # of that step
        ("outage", "f8"),  # when it fails, or is repaired
    ],
    align=True,
)

PREFIX = np.dtype(
    [("session", "i8"), ("replica", "i8"), ("tokens", "i8"), ("stamp", "i8")],
    align=True,
)

_PREFIXES = 1 << 20


class State(NamedTuple):
    """pool: a record per request in the fleet [places];  free: places of it that are empty, a stack [places]
    replicas: a record each [replicas];  batch: places of the requests that run, in order of admission [replicas, batch]
    load: requests that a replica has, DOWN on top where it has failed [replicas]
    wakes: when the loop comes to each, seconds: as its step ends, or later where it is ahead [replicas]
    heap: replicas that have a step under way, the one that wakes first on top [replicas]
    learned: what the gamma rule remembers, a row per replica, laid out by the rule
    alone: seconds of a step of one sequence by its context, 0 where not yet known; empty where nothing runs ahead
    prefixes: by hash of the session, where its last turn ran, empty without prefix caching
    counts: see HEAP …
    """

    pool: Any
    free: NDArray[np.int64]
    replicas: Any
    batch: NDArray[np.int32]
    load: NDArray[np.int64]
    wakes: NDArray[np.float64]
    heap: NDArray[np.int64]
    learned: NDArray[np.float64]
    alone: NDArray[np.float64]
    prefixes: Any
    counts: NDArray[np.int64]


def empty(fleet: Fleet, learned: NDArray[np.float64], alone: NDArray[np.float64]) -> State:
    """learned: a row, as the rule begins;  alone: zeros"""
    n = fleet.replicas
    replicas = np.zeros(n, REPLICA).view(np.recarray)
    replicas.head = replicas.tail = replicas.place = NONE
    replicas.free = fleet.replica.blocks
    replicas.ends = replicas.outage = np.inf
    prefixes = np.zeros(_PREFIXES if fleet.replica.prefix_caching else 0, PREFIX).view(np.recarray)
    prefixes.session = NONE
    counts = np.zeros(6, np.int64)
    return State(
        np.zeros(0, REQUEST).view(np.recarray),
        np.zeros(0, np.int64),
        replicas,
        np.zeros((n, fleet.replica.max_batch_size), np.int32),
        np.zeros(n, np.int64),
        np.full(n, np.inf),
        np.zeros(n, np.int64),
        np.tile(learned, (n, 1)),
        alone,
        prefixes,
        counts,
    )


def with_room(state: State, requests: int) -> State:
    """The same with at least so many empty places in the pool; at most doubled from time to time."""
    free, size = int(state.counts[FREE]), len(state.pool)
    if free >= requests:
        return state
    more = max(requests - free, size)
    pool = np.zeros(size + more, REQUEST).view(np.recarray)
    pool[:size] = state.pool
    places = np.zeros(size + more, np.int64)
    places[:free] = state.free[:free]
    places[free : free + more] = np.arange(size + more - 1, size - 1, -1)
    state.counts[FREE] = free + more
    return state._replace(pool=pool, free=places)
