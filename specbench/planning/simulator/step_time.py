"""Seconds of a pass: `planning.performance` with its constants worked out once, for millions of passes a second."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from specbench.planning.performance import communication_seconds
from specbench.planning.simulator.compiled import compiled
from specbench.planning.simulator.fleet import Replica


class Cost(NamedTuple):
    """Seconds, of what is named.

    weights: reading what every pass reads;  experts: reading all routed experts, of which a token goes to `routed` (a
        share);  cached: reading one cached token
    token: computing one token;  attended: one token's attention to one other
    overhead, sequence, exponent, prefill: as in `performance.Efficiency`
    shared, shared_token: what the devices say to each other, per pass and per token
    draft_ratio, draft_overhead: as in `performance.Drafting`;  at_once, chunked, drafted_share: as in `Replica`
    """

    weights: float
    experts: float
    routed: float
    cached: float
    token: float
    attended: float
    overhead: float
    sequence: float
    exponent: float
    prefill: float
    shared: float
    shared_token: float
    draft_ratio: float
    draft_overhead: float
    drafted_share: float
    at_once: bool
    chunked: bool

    @classmethod
    def of(cls, replica: Replica) -> Cost:
        shape, machine, fitted = replica.model, replica.machine, replica.efficiency
        reading = 1 / (machine.count * machine.bandwidth * _one(fitted.memory))
        computing = 1 / (machine.count * machine.flops * _one(fitted.compute))
        shared = float(communication_seconds(0, shape, machine))
        return cls(
            weights=shape.shared * shape.weight_bytes * reading,
            experts=shape.experts * shape.weight_bytes * reading,
            routed=shape.routed / shape.expert_count,
            cached=shape.kv_bytes_per_token * reading,
            token=2 * shape.active * computing,
            attended=4.0 * shape.layers * shape.heads * shape.head_dim * computing,
            overhead=_one(fitted.overhead),
            sequence=_one(fitted.per_sequence),
            exponent=_one(fitted.exponent),
            prefill=_one(fitted.prefill),
            shared=shared,
            shared_token=float(communication_seconds(1, shape, machine)) - shared,
            draft_ratio=_one(replica.drafting.ratio) if replica.drafting else 0.0,
            draft_overhead=_one(replica.drafting.overhead) if replica.drafting else 0.0,
            drafted_share=replica.drafted_share,
            at_once=replica.at_once,
            chunked=replica.chunked,
        )


def _one(value: Any) -> float:
    """Fitted values may have an axis for points."""
    return float(np.asarray(value, float).item())


@compiled
def pass_seconds(cost: Cost, tokens: float, sequences: float, cached: float, attended: float) -> float:
    """`performance.forward_seconds` for sequences that differ.

    tokens: in the pass;  cached: tokens that its sequences have in the cache, together
    attended: Σ over sequences of tokens in the pass × tokens that each attends to
    """
    reading = cost.weights + cost.cached * cached
    if cost.experts > 0:
        reading += cost.experts * (1 - (1 - cost.routed) ** tokens)
    computing = cost.token * tokens + cost.attended * attended
    longer, shorter = max(reading, computing), min(reading, computing)
    both: float = longer * (1 + (shorter / longer) ** cost.exponent) ** (1 / cost.exponent)
    return cost.overhead + both + cost.sequence * sequences + cost.shared + cost.shared_token * tokens


@compiled
def draft_seconds(cost: Cost, gamma: int, sequences: float, cached: float) -> float:
    """Of a step in which the longest draft is gamma: a pass of the drafter each, or one where it drafts at once."""
    if gamma == 0:
        return 0.0
    passes = 1 if cost.at_once else gamma
    return passes * (cost.draft_overhead + cost.draft_ratio * pass_seconds(cost, sequences, sequences, cached, cached))


@compiled
def decode_seconds(cost: Cost, gamma: int, sequences: float, cached: float) -> float:
    """Of a step in which all sequences draft gamma tokens: what the goodput rule and the oracle weigh."""
    drafted = gamma * cost.drafted_share
    verify = pass_seconds(cost, sequences * (1 + drafted), sequences, cached, cached * (1 + drafted))
    return draft_seconds(cost, gamma, sequences, cached) + verify


@compiled
def prefill_seconds(
    cost: Cost, prompts: tuple[float, float, float, float], decoding: tuple[float, float, float, float]
) -> float:
    """What reading prompts adds to a step, in which as many sequences decode.

    prompts, decoding: tokens, sequences, cached and attended of `pass_seconds`; decoding has no tokens where nothing
        decodes
    """
    if decoding[0] == 0:
        return cost.prefill * pass_seconds(cost, prompts[0], prompts[1], prompts[2], prompts[3])
    alone = pass_seconds(cost, decoding[0], decoding[1], decoding[2], decoding[3])
    together = pass_seconds(
        cost,
        prompts[0] + decoding[0],
        prompts[1] + decoding[1],
        prompts[2] + decoding[2],
        prompts[3] + decoding[3],
    )
    return cost.prefill * (together - alone)
