"""Checks of cost: the rent of the GPUs against the tokens that they give.

A check's parameters are named after the inputs of a claim (`Claim`); those with a default may be unknown.
"""

from __future__ import annotations

from specbench.claims import arithmetic
from specbench.claims.figure import Figure, shown, spread
from specbench.claims.finding import Finding, agreement, at_least, judged, off

PER_MILLION = "per million output tokens"
TIMES = "times"


def cost_of_tokens(
    price: Figure,
    price_text: str,
    gpus_text: str,
    gpu_count: Figure,
    tokens_per_second: Figure,
    cost: Figure | None = None,
) -> Finding:
    about = "cost of a million output tokens"
    return _cost(about, price, price_text, gpus_text, gpu_count, tokens_per_second, cost)


def cost_of_baseline_tokens(
    price: Figure,
    price_text: str,
    gpus_text: str,
    gpu_count: Figure,
    baseline_tokens_per_second: Figure,
    baseline_cost: Figure | None = None,
) -> Finding:
    about = "cost of a million output tokens without speculation"
    return _cost(about, price, price_text, gpus_text, gpu_count, baseline_tokens_per_second, baseline_cost)


def _cost(
    about: str, price: Figure, price_text: str, gpus_text: str, gpus: Figure, rate: Figure, claimed: Figure | None
) -> Finding:
    # Rent is a floor: idle hours, energy and staff only add to it.
    computed = spread(arithmetic.cost_per_million, price, gpus, rate)
    working = (
        f"{price_text} per GPU-hour × {gpus_text} ÷ ({rate} tokens/s × 3600 s) × 10⁶ = {computed} per million tokens, "
        "with all of the rent on the output tokens"
    )
    if claimed is None:
        return Finding(about, PER_MILLION, None, None, computed, (working,))
    verdict = at_least(claimed, computed)
    true_if = (
        f"{shown(arithmetic.tokens_per_s_for(price.value, gpus.value, claimed.value))} tokens per second",
        f"a GPU-hour at {shown(arithmetic.price_for(claimed.value, gpus.value, rate.value))}",
        f"{shown(computed.value / claimed.value)} tokens billed for each output token, input tokens among them"
        if verdict == "impossible"
        else f"GPUs that are busy {computed.value / claimed.value:.0%} of the time",
    )
    return judged(about, PER_MILLION, verdict, claimed, computed, (working, off(claimed, computed)), true_if)


def cost_ratio(
    baseline_tokens_per_second: Figure, tokens_per_second: Figure, baseline_cost: Figure, cost: Figure
) -> Finding:
    """On the same GPUs at the same price cost falls exactly as throughput rises."""
    computed = spread(arithmetic.ratio, tokens_per_second, baseline_tokens_per_second)
    claimed = spread(arithmetic.ratio, baseline_cost, cost)
    working = (
        f"throughput: {tokens_per_second} ÷ {baseline_tokens_per_second} tokens/s = {computed}",
        f"cost: {baseline_cost} ÷ {cost} = {claimed}; on the same GPUs at one price both are the same factor",
    )
    true_if = (
        f"a cost of {shown(baseline_cost.value / computed.value)} instead of {cost}",
        f"{shown(baseline_tokens_per_second.value * claimed.value)} tokens per second instead of {tokens_per_second}",
        f"GPUs that cost {shown(computed.value / claimed.value)} times as much behind the second figure",
    )
    return judged("fall of the cost", TIMES, agreement(claimed, computed), claimed, computed, working, true_if)


def change_by_throughput(baseline_tokens_per_second: Figure, tokens_per_second: Figure, cost_change: Figure) -> Finding:
    before, after = baseline_tokens_per_second, tokens_per_second
    computed = spread(arithmetic.relative_change, after, before)
    working = f"{before} → {after} tokens/s at one price: {before} ÷ {after} - 1 = {computed.value:+.1%}"
    return _change("change of the cost, from throughput", cost_change, computed, working)


def change_by_cost(baseline_cost: Figure, cost: Figure, cost_change: Figure) -> Finding:
    computed = spread(arithmetic.relative_change, baseline_cost, cost)
    working = f"{baseline_cost} → {cost} per million: {cost} ÷ {baseline_cost} - 1 = {computed.value:+.1%}"
    return _change("change of the cost, from the costs", cost_change, computed, working)


def change_by_speedup(speedup: Figure, cost_change: Figure) -> Finding:
    computed = spread(arithmetic.cost_change_at, speedup)
    working = f"{speedup} times the tokens at one price: 1 ÷ {speedup} - 1 = {computed.value:+.1%}"
    return _change("change of the cost, from the speedup", cost_change, computed, working)


def _change(about: str, claimed: Figure, computed: Figure, working: str) -> Finding:
    true_if = (
        f"a change of {computed.value:+.1%}",
        f"a throughput that is {shown(1 / (1 + claimed.value))} times the first",
    )
    lines = (working, f"claimed {claimed}")
    return judged(about, "relative change", agreement(claimed, computed), claimed, computed, lines, true_if)


def speedup_of_rates(baseline_tokens_per_second: Figure, tokens_per_second: Figure, speedup: Figure) -> Finding:
    before, after = baseline_tokens_per_second, tokens_per_second
    computed = spread(arithmetic.ratio, after, before)
    working = (f"{after} ÷ {before} tokens/s = {computed}", off(speedup, computed))
    true_if = (
        f"{shown(before.value * speedup.value)} tokens per second with speculation",
        f"{shown(after.value / speedup.value)} tokens per second without it",
    )
    return judged("speedup, from throughput", TIMES, agreement(speedup, computed), speedup, computed, working, true_if)
