"""Which replica a request goes to. Failed ones are passed over while there is another."""

from __future__ import annotations

from specbench.planning.simulator.compiled import compiled
from specbench.planning.simulator.fleet import ROUTERS
from specbench.planning.simulator.state import DOWN, TURN, State

RANDOM, SHORTEST_QUEUE, PREFIX_AFFINITY = (
    ROUTERS.index(name) for name in ("random", "shortest-queue", "prefix-affinity")
)


@compiled
def route(state: State, router: int, session: int, uniform: float) -> int:
    """uniform: a random number from 0 to below 1, for the random router"""
    load = state.load
    n = len(load)
    if router == RANDOM:
        return _next_up(state, int(uniform * n))
    if router == PREFIX_AFFINITY and session >= 0:
        return _next_up(state, session % n)
    turn = int(state.counts[TURN])
    state.counts[TURN] = turn + 1 if turn + 1 < n else 0
    if router != SHORTEST_QUEUE:
        return _next_up(state, turn)
    least = load[turn]
    for r in range(n):
        least = min(least, load[r])
    while load[turn] != least:  # from the one whose turn it is, so that ties go round
        turn = turn + 1 if turn + 1 < n else 0
    return turn


@compiled
def _next_up(state: State, r: int) -> int:
    for step in range(len(state.load)):
        at = (r + step) % len(state.load)
        if state.load[at] < DOWN:
            return at
    return r
