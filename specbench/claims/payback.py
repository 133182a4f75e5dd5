"""Checks of savings: what a monthly volume costs, needs and pays back.

A check's parameters are named after the inputs of a claim (`Claim`); those with a default may be unknown.
"""

from __future__ import annotations

from specbench.analysis.cost import HOURS_PER_MONTH
from specbench.claims import arithmetic
from specbench.claims.figure import Figure, shown, spread
from specbench.claims.finding import Finding, Verdict, agreement, at_least, judged, off

PER_MONTH = "per month"
WEEKS = "weeks"


def savings_of_costs(savings: Figure, tokens_per_month: Figure, baseline_cost: Figure, cost: Figure) -> Finding:
    computed = spread(arithmetic.monthly_savings, tokens_per_month, baseline_cost, cost)
    working = (
        f"{shown(tokens_per_month.value / 1e6)} million tokens × ({baseline_cost} - {cost}) = {computed} a month",
        f"claimed {savings}",
    )
    saved = (baseline_cost.value - cost.value) / 1e6
    true_if = (f"{shown(savings.value / saved)} tokens a month",) if saved > 0 else ("a cost that falls",)
    return judged("savings", PER_MONTH, agreement(savings, computed), savings, computed, working, true_if)


def payback(payback_weeks: Figure, engineering_cost: Figure, monthly_savings: Figure) -> Finding:
    if monthly_savings.high <= 0:
        nothing = f"savings of {monthly_savings} a month pay nothing back"
        return Finding("payback", WEEKS, "impossible", payback_weeks, None, (nothing,), ("a cost that falls",))
    saved = _positive(monthly_savings)
    computed = spread(arithmetic.payback_weeks, engineering_cost, saved)
    shown_savings, weeks = (monthly_savings, computed) if monthly_savings.value > 0 else (saved.span(), computed.span())
    working = (
        f"{engineering_cost} of engineering ÷ {shown_savings} a month × 52 ÷ 12 = {weeks} weeks",
        off(payback_weeks, computed),
    )
    true_if = (
        f"engineering for {shown(arithmetic.engineering_cost_for(payback_weeks.value, saved.value))}",
        f"savings of {shown(arithmetic.payback_weeks(engineering_cost.value, payback_weeks.value))} a month",
    )
    return judged("payback", WEEKS, agreement(payback_weeks, computed), payback_weeks, computed, working, true_if)


def engineering_that_pays_back(payback_weeks: Figure, monthly_savings: Figure) -> Finding:
    """It only follows: the engineering that such a payback leaves room for."""
    about = "engineering that pays back"
    if monthly_savings.value <= 0:
        nothing = f"savings of {monthly_savings} a month pay for no engineering"
        return Finding(about, "one-off", None, None, Figure.exact(0), (nothing,))
    room = spread(arithmetic.engineering_cost_for, payback_weeks, Figure.exact(monthly_savings.value))
    working = (f"{monthly_savings} a month pay for {room.span()} of engineering in {payback_weeks.span()} weeks",)
    return Finding(about, "one-off", None, None, room, working)


def replicas_of_volume(tokens_per_month: Figure, tokens_per_second: Figure, replicas: Figure | None = None) -> Finding:
    """At a steady rate; traffic with peaks needs more."""
    computed = spread(arithmetic.replicas_for, tokens_per_month, tokens_per_second)
    rate = arithmetic.tokens_per_s_of(tokens_per_month.value)
    working = (
        f"{tokens_per_month} tokens ÷ (730 h × 3600 s) = {shown(rate)} tokens/s; "
        f"÷ {tokens_per_second} = {shown(computed.value)} replicas at a steady rate",
    )
    if replicas is None:
        return Finding("replicas", "servers", None, None, computed, working)
    verdict: Verdict = "impossible" if replicas.below(computed) else "consistent"
    true_if = (
        f"{shown(rate / replicas.value)} tokens per second from each",
        f"{shown(replicas.value * tokens_per_second.value / rate * tokens_per_month.value)} tokens a month at most",
    )
    return judged("replicas", "servers", verdict, replicas, computed, (*working, f"claimed {replicas}"), true_if)


def bill_against_rent(
    tokens_per_month: Figure,
    cost: Figure,
    price: Figure,
    price_text: str,
    gpus_text: str,
    gpu_count: Figure,
    tokens_per_second: Figure,
) -> Finding:
    """The whole month's bill at the claimed cost against the rent of the servers that the volume needs."""
    bill = spread(arithmetic.bill, tokens_per_month, cost)
    hours = spread(arithmetic.gpu_hours, tokens_per_month, tokens_per_second, gpu_count)
    rent = spread(arithmetic.multiplied, price, hours)
    month = HOURS_PER_MONTH * gpu_count.value * price.value
    working = (
        f"bill: {shown(tokens_per_month.value / 1e6)} million tokens × {cost} = {bill} a month",
        f"rent: {shown(hours.value)} GPU-hours × {price_text} = {rent}; {gpus_text} for one month: {shown(month)}",
    )
    needed = arithmetic.tokens_per_s_for(price.value, gpu_count.value, cost.value)
    true_if = (f"{shown(needed)} tokens per second from each server",)
    return judged("bill against rent", PER_MONTH, at_least(bill, rent), bill, rent, working, true_if)


def _positive(figure: Figure) -> Figure:
    # Costs that nearly agree may, before rounding, have saved nothing: then no number of weeks is too many.
    least = (figure.value if figure.value > 0 else figure.high) / 10
    return Figure(max(figure.value, least), max(figure.low, least), figure.high)
