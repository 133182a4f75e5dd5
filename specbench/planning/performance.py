"""The performance model: seconds of a forward pass, of a step with and without speculation, tokens per second.

Pure functions of arrays that broadcast against each other. Seconds, tokens and bytes throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.planning.machine import Machine
from specbench.planning.shape import ModelShape

Floats = NDArray[np.float64]
Values = Floats | float


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What the data sheet does not tell of an engine on a machine; what a fit finds. Floats, or arrays of draws.

    overhead:     seconds of every pass, whatever is in it: launches, scheduling
    memory:       share of the peak bandwidth that is reached;  compute: share of the peak FLOP/s
    exponent:     how far reading and computing overlap: 1 one after the other, large the longer of the two
    per_sequence: seconds per sequence and pass: sampling, detokenizing
    prefill:      seconds of a prefill over those of a pass with as many tokens
    """

    overhead: Values
    memory: Values
    compute: Values
    exponent: Values
    per_sequence: Values
    prefill: Values


@dataclass(frozen=True, slots=True)
class Drafting:
    """What drafting costs per pass of the drafter.

    ratio: over the target's pass on as many sequences;  overhead: seconds per pass on top
    """

    ratio: Values
    overhead: Values


def forward_seconds(
    tokens: Values, sequences: Values, context: Values, shape: ModelShape, machine: Machine, fitted: Efficiency
) -> Floats:
    """T_f = t0 + (M^p + F^p)^(1/p) + b·B + T_comm of one pass of the target.

    tokens: in the pass, over all sequences;  context: tokens that each sequence attends to
    """
    tokens, sequences, context = (np.asarray(value, float) for value in (tokens, sequences, context))
    reading = shape.bytes_read(tokens, sequences * context) / (machine.count * machine.bandwidth * fitted.memory)
    computing = shape.flops(tokens, context) / (machine.count * machine.flops * fitted.compute)
    longer, shorter = np.maximum(reading, computing), np.minimum(reading, computing)
    both = longer * (1 + (shorter / longer) ** fitted.exponent) ** (1 / np.asarray(fitted.exponent, float))
    return np.asarray(
        fitted.overhead + both + fitted.per_sequence * sequences + communication_seconds(tokens, shape, machine)
    )


def communication_seconds(tokens: Values, shape: ModelShape, machine: Machine) -> Floats:
    """Two all-reduces per layer of tensor parallelism, in a ring; 0 on one device."""
    tokens = np.asarray(tokens, float)
    if machine.count == 1:
        return np.zeros_like(tokens)
    share = 2 * (machine.count - 1) / machine.count
    each = machine.link_latency + share * tokens * shape.hidden * 2 / machine.link_bandwidth
    return np.asarray(2 * shape.layers * each)


def draft_seconds(passes: Values, plain_step: Values, drafting: Drafting) -> Floats:
    """passes: of the drafter in a step: gamma for one that drafts token by token, 1 for one that drafts at once."""
    return np.asarray(np.asarray(passes, float) * (drafting.overhead + drafting.ratio * np.asarray(plain_step)))


def tokens_per_second(
    sequences: Values, step: Values, length: Values, prefill: Values, output_tokens: Values
) -> Floats:
    """Output tokens per second of a closed loop in its steady state.

    A request takes its prefill, in which all others wait, and its share of (output − 1) / τ steps; the prefill yields
    the first token.

    step: seconds;  length: τ;  prefill: seconds of one request's;  output_tokens: of a request
    """
    output = np.asarray(output_tokens, float)
    steps = (output - 1) / np.asarray(length, float)
    return np.asarray(output / (np.asarray(prefill) + steps * np.asarray(step) / np.asarray(sequences, float)))
