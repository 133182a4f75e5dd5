"""The arithmetic behind published figures: pure functions of plain numbers."""

from __future__ import annotations

import math

from specbench.analysis.breakeven import break_even_alpha, expected_length
from specbench.analysis.cost import SECONDS_PER_HOUR, SECONDS_PER_MONTH

WEEKS_PER_MONTH = 52 / 12


def cost_per_million(price: float, gpus: float, tokens_per_s: float) -> float:
    """price × GPUs ÷ (tokens per second × 3600) × 10⁶. price: per GPU-hour"""
    return price * gpus / (tokens_per_s * SECONDS_PER_HOUR) * 1e6


def tokens_per_s_for(price: float, gpus: float, cost: float) -> float:
    """The rate at which a million tokens cost so much: the inverse of `cost_per_million`."""
    return price * gpus * 1e6 / (SECONDS_PER_HOUR * cost)


def price_for(cost: float, gpus: float, tokens_per_s: float) -> float:
    """The GPU-hour's price at which a million tokens cost so much."""
    return cost * tokens_per_s * SECONDS_PER_HOUR / (gpus * 1e6)


def ratio(one: float, other: float) -> float:
    return one / other


def multiplied(one: float, other: float) -> float:
    return one * other


def relative_change(before: float, after: float) -> float:
    """after ÷ before - 1: -0.5 is half as much."""
    return after / before - 1


def cost_change_at(speedup: float) -> float:
    """Change of the cost per token when the same GPUs at the same price give `speedup` times the tokens."""
    return 1 / speedup - 1


def weight_bytes(parameters: float, bits: float) -> float:
    return parameters * bits / 8


def gpus_for(bytes_needed: float, bytes_per_gpu: float) -> int:
    return math.ceil(bytes_needed / bytes_per_gpu)


def steps_per_s_roof(bandwidth: float, bytes_read: float) -> float:
    """Most decoding steps per second: each reads the weights once. bandwidth: bytes per second of all GPUs together"""
    return bandwidth / bytes_read


def length(alpha: float, gamma: float) -> float:
    """E(α, γ) of a gamma that was read as a figure."""
    return expected_length(alpha, int(gamma))


def longest_length(acceptance: float, gamma: float) -> float:
    """1 + γ × acceptance: tokens per step when `acceptance` is the share of drafted tokens that are accepted.

    No reading of an acceptance rate gives more.
    """
    return 1 + gamma * acceptance


def step_cost(gamma: float, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Time of a speculative step in plain steps: γ × c + v. draft_cost: of one draft token; verify_cost: of the pass"""
    return gamma * draft_cost + verify_cost


def modelled_speedup(alpha: float, gamma: float, draft_cost: float, verify_cost: float = 1.0) -> float:
    """E(α, γ) ÷ (γc + v) (Leviathan et al., 2023, theorem 3.8, where v = 1). Verifying never costs less than a plain
    step, so v = 1 gives the most."""
    return length(alpha, gamma) / step_cost(gamma, draft_cost, verify_cost)


def break_even_acceptance(gamma: float, draft_cost: float, verify_cost: float = 1.0) -> float | None:
    """The α at which E(α, γ) = γc + v, so that speculation neither gains nor loses; None where it always loses."""
    return break_even_alpha(step_cost(gamma, draft_cost, verify_cost), int(gamma))


def monthly_savings(tokens_per_month: float, cost_before: float, cost_after: float) -> float:
    """Costs are per million tokens."""
    return tokens_per_month / 1e6 * (cost_before - cost_after)


def payback_weeks(engineering_cost: float, savings_per_month: float) -> float:
    return engineering_cost / savings_per_month * WEEKS_PER_MONTH


def engineering_cost_for(weeks: float, savings_per_month: float) -> float:
    """What is paid back in so many weeks: the inverse of `payback_weeks`."""
    return weeks / WEEKS_PER_MONTH * savings_per_month


def tokens_per_s_of(tokens_per_month: float) -> float:
    """The steady rate of a monthly volume."""
    return tokens_per_month / SECONDS_PER_MONTH


def replicas_for(tokens_per_month: float, tokens_per_s: float) -> int:
    """Whole servers for a monthly volume that comes at a steady rate; peaks need more."""
    return math.ceil(tokens_per_s_of(tokens_per_month) / tokens_per_s)


def bill(tokens_per_month: float, cost: float) -> float:
    """cost: per million tokens"""
    return tokens_per_month / 1e6 * cost


def gpu_hours(tokens_per_month: float, tokens_per_s: float, gpus: float) -> float:
    """Hours of GPUs that a month's tokens take, were they never idle. tokens_per_s: of a server of so many GPUs"""
    return tokens_per_month / (tokens_per_s * SECONDS_PER_HOUR) * gpus


def decode_intensity(batch_size: float, bits: float) -> float:
    """FLOP per byte of weights in a decoding step: 2 per parameter and sequence, over the bytes of a parameter."""
    return 2 * batch_size / (bits / 8)


def kv_values_per_token(layers: int, kv_heads: int, head_dim: int) -> int:
    """Keys and values that one token of context keeps: 2 × L × H_kv × d_h."""
    return 2 * layers * kv_heads * head_dim
