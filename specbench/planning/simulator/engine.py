"""One replica's step: who is in it, how long it takes, what comes of it. Continuous batching, decode first.

As vLLM's scheduler does it: running sequences first; a full cache preempts the one admitted last, which is computed
again from its prompt and what it had put out; prompts share what the token budget leaves, first come first served.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specbench.planning.simulator import rules, tally
from specbench.planning.simulator.compiled import compiled
from specbench.planning.simulator.draws import uniform
from specbench.planning.simulator.queues import pop_front, push_front, schedule
from specbench.planning.simulator.rules import Rule
from specbench.planning.simulator.state import FREE, IN_FLIGHT, NONE, State
from specbench.planning.simulator.step_time import Cost, draft_seconds, pass_seconds, prefill_seconds
from specbench.planning.simulator.tally import Tally


class Engine(NamedTuple):
    """What does not change of a replica. survival: as `survival.survival`;  the rest as in `fleet.Replica`"""

    cost: Cost
    rule: Rule
    survival: NDArray[np.float64]
    batch_size: int
    token_budget: int
    blocks: int
    block_tokens: int


@compiled
def begin_step(engine: Engine, state: State, counted: Tally, r: int, now: float) -> bool:
    """Put replica r's next step into the heap; False where it has nothing to do."""
    replica, pool, batch = state.replicas[r], state.pool, state.batch[r]
    cost, rule = engine.cost, engine.rule
    _choose(engine, state, r)

    decoding, longest, verified, suspended = 0, 0, 0, 0
    tokens, cached, attended = 0.0, 0.0, 0.0
    before, j = replica.running, 0
    while j < replica.running:
        request = pool[batch[j]]
        request.chunk = 0
        if rules.decodes(request):
            context = request.prompt + request.emitted
            if not make_room(engine, state, counted, r, j, context + request.gamma, now):
                break
            judged = 1 + request.gamma * cost.drafted_share
            decoding += 1
            longest = max(longest, request.gamma)
            verified += 1 + request.gamma
            suspended += 1 if request.gamma == 0 else 0
            tokens += judged
            cached += context
            attended += judged * context
        j += 1
    preempted = before - replica.running

    budget = engine.token_budget - verified
    reading, read, read_cached, read_attended, apart = 0, 0.0, 0.0, 0.0, 0.0
    j = 0
    while budget > 0:
        if j == replica.running and (preempted > 0 or not _admit(engine, state, counted, r, now)):
            break
        request = pool[batch[j]]
        if not rules.decodes(request):
            chunk = min(request.to_prefill - request.prefilled, budget)
            behind = request.prefilled + chunk / 2
            request.chunk = chunk
            budget -= chunk
            reading += 1
            read += chunk
            read_cached += behind
            read_attended += chunk * behind
            if not cost.chunked:
                apart += cost.prefill * pass_seconds(cost, float(chunk), 1.0, behind, chunk * behind)
        j += 1

    replica.decoding = decoding
    if decoding + reading == 0:
        return False
    seconds = 0.0
    if decoding > 0:
        seconds = draft_seconds(cost, longest, float(decoding), cached)
        seconds += pass_seconds(cost, tokens, float(decoding), cached, attended)
    if not cost.chunked:
        seconds += apart
    elif reading > 0:
        seconds += prefill_seconds(
            cost, (read, float(reading), read_cached, read_attended), (tokens, float(decoding), cached, attended)
        )
    replica.seconds = seconds
    replica.ends = now + seconds
    schedule(state, r, replica.ends)

    tally.add_step(
        counted,
        now,
        seconds,
        replica.running,
        engine.blocks - replica.free,
        read,
        decoding,
        tokens - decoding,
        suspended if rule.largest > 0 else 0,
    )
    return True


@compiled
def finish_step(engine: Engine, state: State, counted: Tally, r: int, now: float) -> None:
    """Replica r's step is over: tokens come out, requests leave."""
    replica, pool, batch, row = state.replicas[r], state.pool, state.batch[r], state.learned[r]
    rule = engine.rule
    rules.fade(rule, row, replica.decoding)
    stay, kept, emitted = 0, 0, 0
    for j in range(replica.running):
        i = batch[j]
        request = pool[i]
        gained = 0
        if request.chunk > 0:
            request.prefilled += request.chunk
            gained = 1 if rules.decodes(request) else 0
        elif rules.decodes(request):
            accepted = tokens_kept(engine, request, request.emitted)
            rules.note(rule, row, request, accepted)
            kept += accepted
            gained = min(accepted + 1, request.output - request.emitted)
        if gained > 0 and request.emitted == 0:
            request.first = now
        request.emitted += gained
        emitted += gained
        if request.emitted < request.output:
            batch[stay] = i
            stay += 1
        else:
            _release(state, counted, r, i, now)
    replica.running = stay
    if replica.decoding > 0:
        rules.end_step(rule, row, replica.decoding, kept, replica.seconds)
    tally.add(counted, now, tally.EMITTED, float(emitted))
    tally.add(counted, now, tally.ACCEPTED, float(kept))


@compiled
def blocks_for(engine: Engine, tokens: int) -> int:
    return (tokens + engine.block_tokens - 1) // engine.block_tokens


@compiled
def send_back(request: Any) -> None:
    """It lost its place: what it had in the cache has to be computed again."""
    request.blocks, request.prefilled = 0, 0
    request.to_prefill = request.prompt + request.emitted


@compiled
def tokens_kept(engine: Engine, request: Any, emitted: int) -> int:
    """Of the draft after so many tokens of the answer: one draw, since survival falls along the draft."""
    if request.gamma == 0:
        return 0
    survival, drawn = engine.survival[request.kind], uniform(request.key, emitted)
    kept = 0
    while kept < request.gamma and drawn < survival[kept]:
        kept += 1
    return kept


@compiled
def _choose(engine: Engine, state: State, r: int) -> None:
    replica, pool, batch = state.replicas[r], state.pool, state.batch[r]
    decoding, cached = 0, 0.0
    for j in range(replica.running):
        request = pool[batch[j]]
        if rules.decodes(request):
            decoding += 1
            cached += request.prompt + request.emitted
    if decoding > 0:
        rules.choose(engine.rule, engine.cost, state.learned[r], pool, batch, replica.running, decoding, cached)


@compiled
def make_room(engine: Engine, state: State, counted: Tally, r: int, j: int, tokens: int, now: float) -> bool:
    """Blocks for so many tokens of the batch's j-th request; False where it had to give way itself."""
    replica, pool, batch = state.replicas[r], state.pool, state.batch[r]
    request = pool[batch[j]]
    needed = blocks_for(engine, tokens) - request.blocks
    if needed <= 0:
        return True
    while needed > replica.free:
        last = batch[replica.running - 1]
        replica.running -= 1
        replica.free += pool[last].blocks
        send_back(pool[last])
        push_front(pool, replica, last)
        tally.add(counted, now, tally.PREEMPTED, 1.0)
        if replica.running == j:
            return False
    request.blocks += needed
    replica.free -= needed
    replica.allocated += needed
    return True


@compiled
def _admit(engine: Engine, state: State, counted: Tally, r: int, now: float) -> bool:
    """The queue's first into the batch, where there is one and room for it."""
    replica, pool = state.replicas[r], state.pool
    if replica.head == NONE or replica.running == engine.batch_size:
        return False
    needed = blocks_for(engine, pool[replica.head].to_prefill)
    if needed > replica.free:
        return False
    found = _found(engine, state, r, pool[replica.head])
    i = pop_front(pool, replica)
    request = pool[i]
    state.batch[r, replica.running] = i
    replica.running += 1
    replica.free -= needed
    replica.allocated += needed
    request.blocks = needed
    request.prefilled = found
    if request.started < 0:
        request.started = now
    if found > 0:
        tally.add(counted, now, tally.REUSED, float(found))
    return True


@compiled
def _found(engine: Engine, state: State, r: int, request: Any) -> int:
    """Tokens of its prompt that the last turn of its session left in the cache, in whole blocks.

    Blocks that were freed are taken again oldest first: they are there as long as fewer were handed out since than are
    free.
    """
    if len(state.prefixes) == 0 or request.session < 0:
        return 0
    replica, left = state.replicas[r], state.prefixes[request.session % len(state.prefixes)]
    if left.session != request.session or left.replica != r or replica.allocated - left.stamp > replica.free:
        return 0
    shared = min(left.tokens, request.to_prefill - 1)
    return int(shared // engine.block_tokens * engine.block_tokens)


@compiled
def _release(state: State, counted: Tally, r: int, i: int, now: float) -> None:
    replica, request = state.replicas[r], state.pool[i]
    tally.finish(counted, request, now)
    replica.free += request.blocks
    state.load[r] -= 1
    if len(state.prefixes) > 0 and request.session >= 0:
        left = state.prefixes[request.session % len(state.prefixes)]
        left.session, left.replica = request.session, r
        left.tokens, left.stamp = request.prompt + request.output, replica.allocated
    state.free[state.counts[FREE]] = i
    state.counts[FREE] += 1
    state.counts[IN_FLIGHT] -= 1
