"""The rules that set gamma, compiled: the decisions of `decoder.policies` for our own, over flat arrays.

A step asks `choose` once, then `fade` once, `note` for each sequence that decoded, and `end_step` once. What a rule
remembers of a replica is a row of `State.learned`; what the threshold rule remembers of a request stands in its record.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specbench.decoder.policies import goodput, threshold
from specbench.decoder.policies.base import rungs
from specbench.planning.simulator.compiled import compiled
from specbench.planning.simulator.policy import TIERS, Policy
from specbench.planning.simulator.step_time import Cost, decode_seconds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TABLE, THRESHOLD, GOODPUT, TIERED, UTILITY, ORACLE = range(6)
_KINDS = {
    "table": TABLE,
    "threshold": THRESHOLD,
    "goodput": GOODPUT,
    "tiers": TIERED,
    "utility": UTILITY,
    "oracle": ORACLE,
}

_EVIDENCE, _MEMORY = threshold.EVIDENCE, threshold.MEMORY
_FIRST_PAUSE, _LONGEST_PAUSE, _RESUME_AFTER = threshold.FIRST_PAUSE, threshold.LONGEST_PAUSE, threshold.RESUME_AFTER
_PRIOR, _WEIGHT, _EXPLORE = goodput.PRIOR, goodput.WEIGHT, goodput.EXPLORE
_FADING = 1 - 1 / goodput.MEMORY

# SGLang's AdaptiveStepSlot: weight of the newest step, steps between decisions and before the first, and how much
# further acceptance must fall before the tier of batch size 1 is left downwards.
_NEWEST, _BETWEEN, _WARM_UP, _RELUCTANCE = 0.2, 5, 10, 0.25
_AT, _MEAN, _SEEN = 0, 1, 2

# Cascade (Saxena et al., 2025): steps of a trial, trials of a test, steps that its outcome is kept for; longer, up to
# eight times, while tests find that drafting does not pay.
_TRIAL, _TRIALS, _SET, _MOST_FAILURES = 4, 4, 16, 3
_LEFT, _NUMBER, _STEPS, _TOKENS, _SECONDS, _PLAIN, _BEST, _BEST_AT, _HERE, _FAILURES, _WAY = range(11)


class Rule(NamedTuple):
    """kind: TABLE …;  largest: the most that it asks for
    table: gamma by sequences that decode [batch + 1];  gammas: those that it chooses from, growing
    start: index in gammas;  above, below, on_drafted: as in ThresholdRule
    tier_of: by sequences that decode [batch + 1];  tiers: gammas of each, −1 behind the last [tiers, gammas]
    lengths: tokens per step of a request of each kind, by gamma [kinds, largest + 1]
    """

    kind: int
    largest: int
    table: Ints
    gammas: Ints
    start: int
    above: float
    below: float
    on_drafted: bool
    tier_of: Ints
    tiers: Ints
    lengths: Floats


def rule_of(policy: Policy, survival: Floats, batch_size: int) -> Rule:
    """survival [kinds, largest]"""
    sizes = np.arange(batch_size + 1)
    starts = [start for start, _ in policy.steps]
    table = [policy.steps[max(0, at)][1] for at in np.searchsorted(starts, sizes, side="right") - 1]
    climbed = rungs(policy.largest) if policy.largest else ()
    gammas = climbed if policy.kind == "threshold" else (0, *climbed)
    if policy.kind == "oracle":
        gammas = tuple(range(policy.largest + 1))
    of = policy.threshold or threshold.ThresholdRule()
    widest = max(len(tier) for _, tier in TIERS)
    kept = np.cumsum(np.hstack([np.ones((len(survival), 1)), survival]), axis=1)
    return Rule(
        _KINDS[policy.kind],
        policy.largest,
        np.array(table, np.int64),
        np.array(gammas, np.int64),
        max(index for index, rung in enumerate(gammas) if rung <= threshold.START) if gammas else 0,
        of.above,
        of.below,
        of.on == "drafted",
        np.maximum(np.searchsorted([start for start, _ in TIERS], sizes, side="right") - 1, 0),
        np.array([[*tier, *[-1] * (widest - len(tier))] for _, tier in TIERS], np.int64),
        kept,
    )


def first_row(rule: Rule, batch_size: int) -> Floats:
    """A row of `State.learned` before the first step."""
    if rule.kind == GOODPUT:
        return np.zeros(2 * rule.largest + 2 + (batch_size.bit_length() + 1) * len(rule.gammas))
    if rule.kind == TIERED:
        at = [_index_of(3, [g for g in tier if g >= 0]) for tier in rule.tiers.tolist()]
        return np.array([[i, tier[i] - 1.0, 0.0] for i, tier in zip(at, rule.tiers.tolist(), strict=True)]).ravel()
    row = np.zeros(_WAY + 1)
    row[_BEST_AT] = rule.start
    return row


def _index_of(gamma: int, gammas: list[int]) -> int:
    return gammas.index(gamma) if gamma in gammas else len(gammas) // 2


@compiled
def decodes(request: Any) -> bool:
    return bool(request.prefilled >= request.to_prefill)


@compiled
def begin_session(rule: Rule, request: Any) -> None:
    request.rung, request.wait, request.pause = rule.start, -1, _FIRST_PAUSE
    request.drafted, request.probes, request.on_trial = 0, 0, 0
    request.accepted, request.judged = 0.0, 0.0


@compiled
def choose(
    rule: Rule, cost: Cost, row: Floats, pool: Any, batch: Ints, running: int, decoding: int, cached: float
) -> None:
    """Sets the gamma of the next step in the records of the sequences that decode.

    batch: places in the pool of `running` requests, `decoding` of which decode, with `cached` tokens together
    """
    common = 0
    if rule.kind == TABLE:
        common = rule.table[decoding]
    elif rule.kind == GOODPUT:
        common = _goodput_gamma(rule, cost, row, decoding, cached)
    elif rule.kind == TIERED:
        tier = rule.tier_of[decoding]
        common = rule.tiers[tier, int(row[3 * tier + _AT])]
    elif rule.kind == UTILITY:
        common = rule.gammas[int(row[_HERE])]
    elif rule.kind == ORACLE:
        common = _best_gamma(rule, cost, pool, batch, running, decoding, cached)
    for j in range(running):
        request = pool[batch[j]]
        if decodes(request):
            request.gamma = _session_gamma(rule, request) if rule.kind == THRESHOLD else common


@compiled
def fade(rule: Rule, row: Floats, decoding: int) -> None:
    if rule.kind == GOODPUT:
        faded = _FADING**decoding
        for k in range(2 * rule.largest):
            row[k] *= faded


@compiled
def note(rule: Rule, row: Floats, request: Any, accepted: int) -> None:
    """A sequence has decoded with its gamma, and so many of its drafted tokens were kept."""
    if rule.kind == THRESHOLD:
        if request.wait < 0:
            _judge(rule, request, accepted)
        elif request.wait > 0:
            request.wait -= 1
        else:
            _probe(request, accepted)
    elif rule.kind == GOODPUT:
        for k in range(min(accepted + 1, request.gamma)):
            row[rule.largest + k] += 1
            row[k] += 1 if k < accepted else 0


@compiled
def end_step(rule: Rule, row: Floats, decoding: int, accepted: int, seconds: float) -> None:
    """accepted: drafted tokens that were kept, over all sequences"""
    if rule.kind == TIERED:
        _end_tiered(rule, row[3 * rule.tier_of[decoding] :], rule.tiers[rule.tier_of[decoding]], accepted / decoding)
    elif rule.kind == UTILITY:
        _end_utility(rule, row, 1 + accepted / decoding, seconds)


@compiled
def _session_gamma(rule: Rule, request: Any) -> int:
    if request.wait < 0:
        return int(rule.gammas[request.rung])
    return 1 if request.wait == 0 else 0


@compiled
def _judge(rule: Rule, request: Any, accepted: int) -> None:
    drafted = request.gamma
    judged = drafted if rule.on_drafted else min(accepted + 1, drafted)
    request.accepted += accepted - request.accepted / _MEMORY
    request.judged += judged - request.judged / _MEMORY
    request.drafted += drafted
    if request.drafted < _EVIDENCE:
        return
    rate = request.accepted / request.judged
    if rate < rule.below:
        request.pause = min(2 * request.pause, _LONGEST_PAUSE) if request.on_trial else _FIRST_PAUSE
        request.wait, request.probes = request.pause, 0
        return
    request.on_trial = 0
    if rate > rule.above and request.rung + 1 < len(rule.gammas):
        request.rung += 1
        request.drafted = 0


@compiled
def _probe(request: Any, accepted: int) -> None:
    if accepted == 0:
        request.pause = min(2 * request.pause, _LONGEST_PAUSE)
        request.wait, request.probes = request.pause, 0
        return
    request.probes += 1
    if request.probes == _RESUME_AFTER:
        request.rung, request.wait, request.on_trial = 0, -1, 1
        request.accepted, request.judged, request.drafted = 0.0, 0.0, 0


@compiled
def _goodput_gamma(rule: Rule, cost: Cost, row: Floats, decoding: int, cached: float) -> int:
    """Row: kept [largest], judged [largest], steps; then by power of two of the batch when each gamma was last used."""
    top = rule.largest
    about, size = 0, decoding - 1
    while size > 0:
        about, size = about + 1, size // 2
    used = row[2 * top + 2 + about * len(rule.gammas) :]
    row[2 * top] += 1
    best = 0
    if row[2 * top] % _EXPLORE == 0:
        for g in range(len(rule.gammas)):
            if used[g] < used[best]:
                best = g
    else:
        highest = -1.0
        for g in range(len(rule.gammas)):
            gamma = rule.gammas[g]
            rate = _expected_tokens(row, top, gamma) / decode_seconds(cost, gamma, float(decoding), cached)
            if rate > highest:
                best, highest = g, rate
    used[best] = row[2 * top]
    return int(rule.gammas[best])


@compiled
def _expected_tokens(row: Floats, top: int, gamma: int) -> float:
    kept, judged = 0.0, 0.0
    for k in range(top):
        kept, judged = kept + row[k], judged + row[top + k]
    pooled = (kept + _WEIGHT * _PRIOR) / (judged + _WEIGHT)
    total, reached = 1.0, 1.0
    for k in range(gamma):
        reached *= (row[k] + _WEIGHT * pooled) / (row[top + k] + _WEIGHT)
        total += reached
    return total


@compiled
def _best_gamma(rule: Rule, cost: Cost, pool: Any, batch: Ints, running: int, decoding: int, cached: float) -> int:
    best, highest = 0, -1.0
    for gamma in rule.gammas:
        tokens = 0.0
        for j in range(running):
            request = pool[batch[j]]
            if decodes(request):
                tokens += rule.lengths[request.kind, gamma]
        rate = tokens / decode_seconds(cost, gamma, float(decoding), cached)
        if rate > highest:
            best, highest = gamma, rate
    return best


@compiled
def _end_tiered(rule: Rule, slot: Floats, gammas: Ints, accepted: float) -> None:
    """Down while the mean of accepted tokens is short of the next smaller draft, else up while it nearly fills one."""
    at = int(slot[_AT])
    if gammas[at] > 0:
        slot[_MEAN] += _NEWEST * (accepted - slot[_MEAN])
    slot[_SEEN] += 1
    if slot[_SEEN] <= _WARM_UP or (slot[_SEEN] - _WARM_UP) % _BETWEEN:
        return
    last = 0
    while last + 1 < len(gammas) and gammas[last + 1] >= 0:
        last += 1
    if gammas[at] == 0:
        # Nothing was drafted, so nothing is known: the smallest draft is tried again.
        here = min(at + 1, last)
        if gammas[here] > 0 and slot[_MEAN] < 0:
            slot[_MEAN] = gammas[here] - 1.0
        slot[_AT] = here
        return
    reluctance = _RELUCTANCE if gammas[0] > 0 else 0.0
    here = at
    while here > 0 and slot[_MEAN] <= max(gammas[here - 1], 1) - 0.5 - reluctance:
        here -= 1
    if here == at:
        while here < last and slot[_MEAN] > gammas[here] - 0.5:
            here += 1
    slot[_AT] = here


@compiled
def _end_utility(rule: Rule, row: Floats, tokens: float, seconds: float) -> None:
    """Utility of a gamma: tokens per step over what a step costs in plain steps. A test tries 0, then climbs.

    tokens: per sequence
    """
    if row[_LEFT] > 0:
        row[_LEFT] -= 1
        if row[_LEFT] == 0:
            row[_HERE] = 0
        return
    row[_STEPS] += 1
    row[_TOKENS] += tokens
    row[_SECONDS] += seconds
    if row[_STEPS] < _TRIAL:
        return
    last = len(rule.gammas) - 1
    here, over = int(row[_HERE]), False
    if row[_NUMBER] == 0:
        row[_PLAIN] = row[_SECONDS] / row[_STEPS]
        row[_BEST], row[_WAY] = 0.0, 1.0
        here = int(row[_BEST_AT])
    else:
        utility = row[_TOKENS] / row[_STEPS] * row[_PLAIN] / (row[_SECONDS] / row[_STEPS])
        better = utility > row[_BEST]
        if better:
            row[_BEST], row[_BEST_AT] = utility, here
        if (row[_NUMBER] == 1 and here == last) or (row[_NUMBER] == 2 and not better and row[_WAY] > 0):
            row[_WAY] = -1.0
        elif not better:
            over = True
        here = int(row[_BEST_AT] + row[_WAY])
        over = over or row[_NUMBER] == _TRIALS or here < 1 or here > last
    row[_NUMBER] += 1
    row[_STEPS], row[_TOKENS], row[_SECONDS] = 0.0, 0.0, 0.0
    if over:
        pays = row[_BEST] >= 1
        here = int(row[_BEST_AT]) if pays else 0
        row[_LEFT] = _SET * 2 ** (0.0 if pays else row[_FAILURES])
        row[_FAILURES] = 0.0 if pays else min(row[_FAILURES] + 1, _MOST_FAILURES)
        row[_NUMBER] = 0
    row[_HERE] = here
