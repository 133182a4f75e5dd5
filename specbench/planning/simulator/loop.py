"""The event loop: arrivals, ends of steps, failures and repairs, in the order in which they happen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specbench.planning.simulator import rules, tally
from specbench.planning.simulator.ahead import catch_up, interrupt, run_ahead
from specbench.planning.simulator.compiled import compiled, entry
from specbench.planning.simulator.engine import Engine, begin_step, blocks_for, finish_step, send_back
from specbench.planning.simulator.queues import pop_front, push_back, push_front, unschedule
from specbench.planning.simulator.routers import RANDOM, route
from specbench.planning.simulator.state import DOWN, FREE, HEAP, IN_FLIGHT, NEXT_OUTAGE, NONE, REFUSED, State
from specbench.planning.simulator.tally import Tally


class Arriving(NamedTuple):
    """Requests in order of arrival, arrays of one length. session: −1 for none;  kind, key: as in `state.REQUEST`"""

    time: NDArray[np.float64]
    prompt: NDArray[np.int32]
    output: NDArray[np.int32]
    session: NDArray[np.int64]
    kind: NDArray[np.int32]
    key: NDArray[np.int64]


class Outages(NamedTuple):
    """Mean seconds; infinite and 0 where nothing fails."""

    time_between: float
    repair: float


@entry
def advance(
    engine: Engine,
    state: State,
    counted: Tally,
    router: int,
    outages: Outages,
    arriving: Arriving,
    drain: bool,
    rng: Any,
) -> None:
    """All events up to the last arrival; with `drain` until every request is done.

    The pool must have an empty place for each arrival.
    """
    k, n = 0, len(arriving.time)
    while k < n or (drain and state.counts[IN_FLIGHT] > 0):
        comes = arriving.time[k] if k < n else np.inf
        ends = state.wakes[state.heap[0]] if state.counts[HEAP] > 0 else np.inf
        fails = state.replicas[state.counts[NEXT_OUTAGE]].outage
        if fails < min(comes, ends):
            _fail_or_repair(engine, state, counted, router, outages, fails, rng)
        elif ends <= comes:
            r = state.heap[0]
            catch_up(engine, state, counted, r, ends)
            finish_step(engine, state, counted, r, ends)
            if begin_step(engine, state, counted, r, ends):
                run_ahead(engine, state, r)
            else:
                unschedule(state, r)
        else:
            _arrive(engine, state, counted, router, arriving, k, rng)
            k += 1


@compiled
def _arrive(engine: Engine, state: State, counted: Tally, router: int, arriving: Arriving, k: int, rng: Any) -> None:
    now = arriving.time[k]
    tally.add(counted, now, tally.ARRIVED, 1.0)
    longest = arriving.prompt[k] + arriving.output[k] + engine.rule.largest
    if blocks_for(engine, longest) > engine.blocks:
        state.counts[REFUSED] += 1
        return
    state.counts[FREE] -= 1
    i = state.free[state.counts[FREE]]
    request = state.pool[i]
    request.arrival, request.started = now, -1.0
    request.session, request.kind, request.key = arriving.session[k], arriving.kind[k], arriving.key[k]
    request.prompt, request.output, request.emitted = arriving.prompt[k], arriving.output[k], 0
    send_back(request)
    rules.begin_session(engine.rule, request)
    state.counts[IN_FLIGHT] += 1
    _send(engine, state, counted, router, i, now, rng)


@compiled
def _send(engine: Engine, state: State, counted: Tally, router: int, i: int, now: float, rng: Any) -> None:
    r = route(state, router, state.pool[i].session, rng.random() if router == RANDOM else 0.0)
    interrupt(engine, state, counted, r, now)
    push_back(state.pool, state.replicas[r], i)
    state.load[r] += 1
    if state.replicas[r].place == NONE and state.load[r] < DOWN:
        begin_step(engine, state, counted, r, now)


@entry
def _fail_or_repair(
    engine: Engine, state: State, counted: Tally, router: int, outages: Outages, now: float, rng: Any
) -> None:
    r = state.counts[NEXT_OUTAGE]
    replica = state.replicas[r]
    if state.load[r] >= DOWN:
        state.load[r] -= DOWN
        replica.outage = now - outages.time_between * np.log(1 - rng.random())
        if state.load[r] > 0:
            begin_step(engine, state, counted, r, now)
    else:
        away = -outages.repair * np.log(1 - rng.random())
        replica.outage = now + away
        tally.add(counted, now, tally.FAILED, 1.0)
        tally.add(counted, now, tally.AWAY, min(away, counted.end - now))
        _evacuate(engine, state, counted, router, r, now, rng)
    state.counts[NEXT_OUTAGE] = np.argmin(state.replicas.outage)


@entry
def _evacuate(engine: Engine, state: State, counted: Tally, router: int, r: int, now: float, rng: Any) -> None:
    """Replica r is gone, and its cache: what ran or waited there goes elsewhere, or waits for it where all are gone."""
    replica, pool = state.replicas[r], state.pool
    interrupt(engine, state, counted, r, now)
    if replica.place != NONE:
        unschedule(state, r)
    for j in range(replica.running - 1, -1, -1):
        i = state.batch[r, j]
        send_back(pool[i])
        push_front(pool, replica, i)
    replica.running = 0
    replica.free = engine.blocks
    replica.allocated += engine.blocks + 1
    requests = state.load[r]
    state.load[r] = DOWN
    for _ in range(requests):
        _send(engine, state, counted, router, pop_front(pool, replica), now, rng)
