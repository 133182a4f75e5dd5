"""Steps ahead of their time: a request that is alone on a replica is followed to its end without an event per step.

All that a lone request's steps depend on is known when the first begins, where gamma does not follow from what the rule
learns. So the loop comes back when the last of them ends, and the ones before are counted then; or earlier, where a
request comes or the replica fails, up to that time and as if there had been an event for each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specbench.planning.simulator import rules, tally
from specbench.planning.simulator.compiled import compiled
from specbench.planning.simulator.engine import Engine, make_room, tokens_kept
from specbench.planning.simulator.queues import schedule
from specbench.planning.simulator.state import NONE, State
from specbench.planning.simulator.step_time import decode_seconds
from specbench.planning.simulator.tally import Tally

CONTEXTS = 1 << 20
"""Tokens of context up to which a lone request is followed."""

_FARTHEST = 256
"""Steps at once: those of a long answer that is interrupted over and over are not simulated to its end each time."""


def seconds_alone(engine: Engine) -> NDArray[np.float64]:
    """Room for `State.alone`: none where the rule learns, and then nothing runs ahead."""
    learns = engine.rule.kind != rules.TABLE
    return np.zeros(0 if learns else min(engine.blocks * engine.block_tokens, CONTEXTS))


@compiled
def run_ahead(engine: Engine, state: State, r: int) -> None:
    """Replica r has begun a step; where it holds one request, let the loop come when this one's last step ends."""
    replica = state.replicas[r]
    if replica.running != 1 or replica.decoding != 1 or replica.head != NONE:
        return
    request = state.pool[state.batch[r, 0]]
    if request.prompt + request.output > len(state.alone):
        return
    emitted, ends = request.emitted, replica.ends
    for _ in range(_FARTHEST):
        emitted += 1 + tokens_kept(engine, request, emitted)
        if emitted >= request.output:
            break
        ends += _seconds(engine, state, request.prompt + emitted)
    if ends > replica.ends:
        schedule(state, r, ends)


@compiled
def catch_up(engine: Engine, state: State, counted: Tally, r: int, now: float) -> None:
    """The steps that replica r is ahead by and that end until now: tokens come out, the next ones begin.

    They are counted together as far as they fall into one interval.
    """
    replica = state.replicas[r]
    request = state.pool[state.batch[r, 0]]
    ends, emitted, wakes = replica.ends, request.emitted, state.wakes[r]
    since, steps, gained, busy, cache = ends, 0, 0, 0.0, 0.0
    while ends <= now and ends < wakes:
        if not tally.together(counted, since, ends):
            _count(engine, counted, request.gamma, since, steps, gained, busy, cache)
            since, steps, gained, busy, cache = ends, 0, 0, 0.0, 0.0
        kept = tokens_kept(engine, request, emitted)
        emitted += 1 + kept
        context = request.prompt + emitted
        if context + request.gamma > request.blocks * engine.block_tokens:
            make_room(engine, state, counted, r, 0, context + request.gamma, ends)
        replica.seconds = _seconds(engine, state, context)
        steps += 1
        gained += 1 + kept
        busy += replica.seconds
        cache += replica.seconds * (engine.blocks - replica.free)
        ends += replica.seconds
    if steps > 0:
        _count(engine, counted, request.gamma, since, steps, gained, busy, cache)
        replica.ends, request.emitted = ends, emitted


@compiled
def _count(
    engine: Engine, counted: Tally, gamma: int, time: float, steps: int, emitted: int, busy: float, cache: float
) -> None:
    """Steps of a lone request that begin about then, and tokens that come out as they begin.

    busy: their seconds;  cache: blocks that are taken × seconds
    """
    tally.add(counted, time, tally.STEPS, float(steps))
    tally.add(counted, time, tally.DECODED, float(steps))
    tally.add(counted, time, tally.EMITTED, float(emitted))
    tally.add(counted, time, tally.ACCEPTED, float(emitted - steps))
    tally.add(counted, time, tally.DRAFTED, steps * gamma * engine.cost.drafted_share)
    tally.add(counted, time, tally.SUSPENDED, float(steps) if gamma == 0 and engine.rule.largest > 0 else 0.0)
    tally.add(counted, time, tally.BUSY, busy)
    tally.add(counted, time, tally.SEQUENCES, busy)
    tally.add(counted, time, tally.CACHE, cache)


@compiled
def interrupt(engine: Engine, state: State, counted: Tally, r: int, now: float) -> None:
    """Something else happens to replica r: back to the step that is under way."""
    if state.replicas[r].ends < state.wakes[r]:
        catch_up(engine, state, counted, r, now)
        schedule(state, r, state.replicas[r].ends)


@compiled
def _seconds(engine: Engine, state: State, context: int) -> float:
    """Of a step of one sequence, worked out once for each context."""
    if state.alone[context] == 0:
        state.alone[context] = decode_seconds(engine.cost, engine.rule.table[1], 1.0, float(context))
    return float(state.alone[context])
