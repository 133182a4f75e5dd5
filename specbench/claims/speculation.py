"""Checks of speculation's own figures: speedup, acceptance, tokens per step, gamma.

A check's parameters are named after the inputs of a claim (`Claim`); those with a default may be unknown.
"""

from __future__ import annotations

from specbench.claims import arithmetic
from specbench.claims.figure import Figure, shown, spread
from specbench.claims.finding import Finding, Verdict, agreement, at_most, judged, off

TIMES = "times"
LENGTH = "tokens per step"
PROBABILITY = "probability"


def speedup_within_length(speedup: Figure, acceptance_length: Figure) -> Finding:
    """A step of speculation is never cheaper than a plain one, so it gains at most the tokens that it commits."""
    most = acceptance_length.span()
    working = (
        f"a step commits {most} tokens and costs a plain step at least: {most} times at most",
        f"claimed {speedup.span()}",
    )
    true_if = (
        f"{speedup} tokens per step or more",
        "a baseline that ran under other settings than the speculative arm, which is no speedup of speculation",
    )
    about = "speedup against tokens per step"
    return judged(about, TIMES, at_most(speedup, acceptance_length), speedup, acceptance_length, working, true_if)


def length_within_gamma(acceptance_length: Figure, gamma: Figure) -> Finding:
    most = spread(arithmetic.longest_length, Figure.exact(1), gamma)
    working = (f"gamma {gamma}: {gamma} drafted tokens and the bonus token at most; claimed {acceptance_length}",)
    true_if = (f"gamma {shown(acceptance_length.value - 1)} or more",)
    about = "tokens per step against gamma"
    return judged(about, LENGTH, at_most(acceptance_length, most), acceptance_length, most, working, true_if)


def speedup_within_gamma(speedup: Figure, gamma: Figure) -> Finding:
    most = spread(arithmetic.longest_length, Figure.exact(1), gamma)
    working = (f"gamma {gamma}: a step commits {gamma} drafted tokens and the bonus token at most; claimed {speedup}",)
    true_if = (f"gamma {shown(speedup.value - 1)} or more",)
    return judged("speedup against gamma", TIMES, at_most(speedup, most), speedup, most, working, true_if)


def speedup_of_source(speedup: Figure, reported_speedup: Figure) -> Finding:
    """A citation against what its source reports under the conditions that the claim names."""
    working = (f"the source reports {reported_speedup}", f"claimed {speedup}")
    true_if = (f"a speedup of {reported_speedup}",)
    about = "speedup against its source"
    verdict = agreement(speedup, reported_speedup)
    return judged(about, TIMES, verdict, speedup, reported_speedup, working, true_if)


def speedup_of_acceptance(
    speedup: Figure,
    acceptance: Figure,
    gamma: Figure,
    draft_cost: Figure | None = None,
    verify_cost: Figure | None = None,
) -> Finding:
    """Against E(α, γ) ÷ (γc + v); impossible above 1 + γ × acceptance, which no reading of acceptance exceeds."""
    c, v = draft_cost or Figure.exact(0), verify_cost or Figure.exact(1)
    length = spread(arithmetic.length, acceptance, gamma)
    modelled = spread(arithmetic.modelled_speedup, acceptance, gamma, c, v)
    most = spread(arithmetic.longest_length, acceptance, gamma)
    verdict: Verdict = "inconsistent" if modelled.below(speedup) else "consistent"
    if most.below(speedup):
        verdict = "impossible"
    free = "" if draft_cost else "; drafts are taken to cost nothing, as no --draft-cost is given"
    working = (
        f"E(α, γ) = 1 + α + … + α^γ = {length.span()} tokens per step at α {acceptance}, γ {gamma}",
        f"a step costs γ × {c} + {v} plain steps{free}: {modelled.span()} times at most",
        f"claimed {speedup}: true where a step costs {_cost(length, speedup)} plain steps",
    )
    needed = arithmetic.break_even_acceptance(gamma.value, c.value * speedup.value, v.value * speedup.value)
    true_if = (
        "another gamma: at this one no acceptance is enough" if needed is None else f"an acceptance of {needed:.2f}",
        f"an acceptance that is accepted ÷ drafted tokens: then a step commits {most.span()}",
    )
    return judged("speedup against acceptance", TIMES, verdict, speedup, modelled, working, true_if)


def length_of_acceptance(acceptance_length: Figure, acceptance: Figure, gamma: Figure) -> Finding:
    """Between E(α, γ), where acceptance is each token's probability, and 1 + γ × acceptance, where it is a share."""
    least = spread(arithmetic.length, acceptance, gamma)
    most = spread(arithmetic.longest_length, acceptance, gamma)
    verdict: Verdict = "inconsistent" if acceptance_length.below(least) else at_most(acceptance_length, most)
    working = (
        f"acceptance as each draft token's probability: E(α, γ) = {least.span()} tokens per step",
        f"as accepted ÷ drafted tokens: 1 + γ × {acceptance} = {most.span()}",
        f"claimed {acceptance_length}",
    )
    true_if = (f"{shown(least.value)} to {shown(most.value)} tokens per step", "another gamma")
    computed = Figure(least.value, least.low, most.high)
    about = "tokens per step against acceptance"
    return judged(about, LENGTH, verdict, acceptance_length, computed, working, true_if)


def acceptance_of_break_even(
    break_even_acceptance: Figure, gamma: Figure, draft_cost: Figure, verify_cost: Figure | None = None
) -> Finding:
    """The α at which a step's tokens pay for its time; there is no general threshold."""
    v = verify_cost or Figure.exact(1)
    about = "acceptance at which speculation breaks even"
    claimed, cost = break_even_acceptance, spread(arithmetic.step_cost, gamma, draft_cost, v)
    step = f"a step costs γ × {draft_cost} + {v} = {cost.span()} plain steps"
    if arithmetic.break_even_acceptance(gamma.high, draft_cost.high, v.high) is None:
        working = (step, f"it commits {shown(gamma.high + 1)} tokens at most: no acceptance breaks even")
        return judged(about, PROBABILITY, "impossible", claimed, Figure.exact(1), working, ("cheaper drafts",))
    computed = spread(lambda g, c, v: arithmetic.break_even_acceptance(g, c, v) or 0.0, gamma, draft_cost, v)
    implied = arithmetic.length(claimed.value, gamma.value) - gamma.value * draft_cost.value
    working = (f"{step}: E(α, γ) is as much at α {computed.span()}", off(claimed, computed))
    # A verification is never cheaper than a plain step.
    dearer = (f"a verification that costs {shown(implied)} plain steps",) if implied >= 1 else ()
    true_if = (f"an acceptance of {computed.span()}", *dearer)
    return judged(about, PROBABILITY, agreement(claimed, computed), claimed, computed, working, true_if)


def _cost(length: Figure, speedup: Figure) -> str:
    return spread(arithmetic.ratio, length, speedup).span()
