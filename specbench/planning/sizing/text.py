"""A plan in words and as JSON values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

from specbench.analysis.json_values import to_json_value
from specbench.planning.prediction import LEVEL, Estimate
from specbench.planning.sizing.demand import Demand
from specbench.planning.sizing.known import ASSUMED
from specbench.planning.sizing.next_cells import NextCell
from specbench.planning.sizing.plan import ArmSize, Plan, Refused, Sized
from specbench.planning.sizing.services import largest_gamma
from specbench.schedule import Schedule
from specbench.speculation import DRAFTERLESS

Row = tuple[str, ...]


class Table(NamedTuple):
    """name: a key of its kind;  rows: as long as the columns"""

    name: str
    title: str
    columns: Row
    rows: list[Row]


_LATENCIES = ("ttft_p95", "tpot_p95")
"""Shown beside those that the SLO bounds."""


def headline(plan: Plan) -> str:
    """The verdict, and what it is worth, in a sentence or two."""
    sized, found = plan.sized, plan.sized.saving
    plain, speculative, method = sized.plain.gpus, sized.speculative.gpus, plan.known.arm[1]
    if math.isinf(plain.value):
        gain = f"only {method} meets the SLO, with {_whole(speculative)} GPUs"
    elif math.isinf(speculative.value):
        gain = f"{method} does not meet the SLO; plain decoding does, with {_whole(plain)} GPUs"
    elif found.replicas.value == 0:
        gain = f"both need {_gpus(int(plain.value))}"
    else:
        more = "saves" if found.replicas.value > 0 else "costs"
        gain = (
            f"{method} {more} {abs(plain.value - speculative.value):.0f} of {_whole(plain)} GPUs, "
            f"{_money(_absolute(found.per_month), plan.terms.currency)} a month"
        )
    return f"{sized.decision.recommendation}: {gain}. {sized.decision.why}"


def tables(plan: Plan) -> list[Table]:
    """Without those that would have no row."""
    method = plan.known.arm[1]
    found = (
        Table("fleet", f"The fleet on {plan.sized.site.name}", ("", "none", method), _fleet_rows(plan)),
        Table(
            "what_ifs",
            "What if",
            ("site", "GPUs, none", f"GPUs, {method}", "saved per month", "verdict"),
            [_what_if(sized, plan.terms.currency) for sized in (plan.sized, *plan.what_ifs)] if plan.what_ifs else [],
        ),
        Table(
            "sensitivity",
            "What would change the decision",
            ("input", "range", "saved per month", "decides"),
            _swing_rows(plan),
        ),
        Table("thumb_rules", "Rules of thumb", ("rule", "here", "it says", "beside this plan"), _thumb_rows(plan)),
    )
    return [table for table in found if table.rows]


def _fleet_rows(plan: Plan) -> list[Row]:
    """A line per figure, without and with speculation."""
    arms, currency = (plan.sized.plain, plan.sized.speculative), plan.terms.currency
    rows: list[Row] = [
        ("GPUs", *(_whole(a.gpus) for a in arms)),
        (f"replicas of {_gpus(plan.sized.case.gpus)}", *(_whole(a.replicas) for a in arms)),
        ("requests/s of a replica within the SLO", *(_range(a.capacity, ".3g") for a in arms)),
        ("rent per month", *(_money(a.rent, currency) for a in arms)),
        ("per million output tokens (all rent on them)", *(_money(a.per_million_output, currency) for a in arms)),
        ("per million tokens, prompts too", *(_money(a.per_million, currency) for a in arms)),
        ("KV cache of a replica, tokens", *(f"{a.kv_tokens:,}" for a in arms)),
        ("requests in flight that fit", *(f"{a.largest_batch}" for a in arms)),
        ("requests in flight at the peak", *(f"{a.at_peak.mean_batch:.1f}" if a.at_peak else "–" for a in arms)),
        ("load at the peak, of that capacity", *(_load(a, plan.demand.peak, plan.sized.case.spares) for a in arms)),
        ("load on average", *(_load(a, plan.demand.mean, plan.sized.case.spares) for a in arms)),
        (
            "time with a step under way at the peak",
            *(f"{a.at_peak.utilisation:.0%}" if a.at_peak else "–" for a in arms),
        ),
    ]
    latencies = dict.fromkeys((*plan.terms.slo, *_LATENCIES))
    return [*rows, *((_latency_name(name), *(_latency(a, name) for a in arms)) for name in latencies)]


def schedule_text(plan: Plan) -> str:
    schedule = plan.sized.case.schedule
    if schedule is None:
        return "Schedule: off at every batch size."
    return f"Schedule of gamma by batch size: {schedule} ({_words(schedule, plan.sized.case.largest_batches[1])})."


def money_lines(plan: Plan) -> list[str]:
    found, terms = plan.sized.saving, plan.terms
    lines = [
        f"Saved per month: {_money(found.per_month, terms.currency)}. A whole replica is saved with a probability of "
        f"{found.p_replica:.0%}; a fraction of one is no saving."
    ]
    if found.payback is not None:
        months = _range(found.payback, ".1f", "never")
        lines.append(f"Months until {terms.engineering_cost:,.0f} {terms.currency} of work are paid back: {months}.")
    target = "it pays for the work" if terms.engineering_cost else "a whole replica is saved"
    lines.append(f"Output tokens a month from which on {target}, whatever the rounding: {_tokens(found.from_tokens)}.")
    return lines


def _swing_rows(plan: Plan) -> list[Row]:
    currency = plan.terms.currency
    return [
        (
            s.what,
            f"{s.low} to {s.high}",
            f"{_saved(s.saving_low)} to {_saved(s.saving_high)} {currency}",
            "yes" if s.flips else "",
        )
        for s in plan.swings
    ]


def _thumb_rows(plan: Plan) -> list[Row]:
    words = {True: "agrees", False: "misleads", None: "the plan is undecided"}
    return [(t.rule, t.figure, t.says, words[t.agrees]) for t in plan.thumbs]


def next_line(plan: Plan) -> str:
    """What to measure, as a `specbench sweep` with the user's own files in it."""
    cells = plan.next_cells
    places = "; ".join(f"{_place(c)} ({c.share:.0%})" for c in cells)
    method = plan.known.arm[1]
    gammas = sorted({c.gamma for c in cells if c.gamma}) or [max(1, largest_gamma(plan.sized.case.schedule))]
    sizes = sorted({c.batch_size for c in cells})
    drafter = "" if method in DRAFTERLESS else f" --drafter {method}=DIRECTORY"
    listed = f"--gamma {','.join(map(str, gammas))} --batch-size {','.join(map(str, sizes))}"
    return (
        f"Measure next, by what of the uncertainty is then gone, one after the other: {places}. That is: "
        f"specbench sweep --workload FILE --method {method}{drafter} {listed}"
    )


def assumptions(plan: Plan) -> list[str]:
    """What the plan rests on besides measurements."""
    d, sized, terms = plan.demand, plan.sized, plan.terms
    lines = [
        f"Traffic: {d.source}: {d.mean:.3g} requests/s on average and {d.peak:.3g} at the peak, prompts of "
        f"{d.prompt_tokens:.0f} and outputs of {d.output_tokens:.0f} tokens on average; "
        f"{_count(d.output_tokens_per_month)} output tokens a month.",
        f"The fleet is rented for its peak all month, at {sized.site.price:.2f} {terms.currency} per GPU-hour "
        f"({sized.site.priced}), with {terms.headroom:.0%} headroom{_spares(terms.spares)}.",
        *plan.known.notes,
    ]
    if plan.known.is_measured and not sized.is_measured:
        lines.append(
            f"Nothing was measured on {sized.site.name}: what the run showed is carried over, with more doubt."
        )
    lines.append(
        f"Intervals hold {LEVEL:.0%} of what may be true: parameters of the model, and its form. Latencies and "
        f"capacities are simulated ({terms.requests:,} requests a trial) on one replica behind a random router."
    )
    return lines


def to_json(plan: Plan) -> dict[str, Any]:
    """One object of JSON values; the keys are in docs/plan.md. Infinite is null."""
    terms, d = plan.terms, plan.demand
    record = {
        **_sized(plan.sized),
        "headline": headline(plan),
        "method": plan.known.arm[1],
        "workload": None if plan.known.arm[0] == ASSUMED else plan.known.arm[0],
        "level": LEVEL,
        "currency": terms.currency,
        "slo": {name: 1e3 * bound for name, bound in terms.slo.items()},
        "headroom": terms.headroom,
        "engineering_cost": terms.engineering_cost,
        "horizon_months": terms.horizon_months,
        "traffic": _traffic(d),
        "what_ifs": [
            {"site": w.site.name, "refused": w.why} if isinstance(w, Refused) else {**_sized(w), "refused": None}
            for w in plan.what_ifs
        ],
        "sensitivity": [asdict(s) for s in plan.swings],
        "measure_next": [asdict(c) for c in plan.next_cells],
        "thumb_rules": [asdict(t) for t in plan.thumbs],
        "assumptions": assumptions(plan),
    }
    found: dict[str, Any] = to_json_value(record)
    return found


def _sized(sized: Sized) -> dict[str, Any]:
    return {
        "site": sized.site.name,
        "is_measured": sized.is_measured,
        "recommendation": sized.decision.recommendation,
        "why": sized.decision.why,
        "up_to_batch_size": sized.decision.up_to_batch_size,
        "schedule": sized.case.schedule and str(sized.case.schedule),
        "gpu_price": sized.site.price,
        "gpus_per_replica": sized.case.gpus,
        "plain": _arm(sized.plain),
        "speculative": _arm(sized.speculative),
        "saving": {
            "per_month": asdict(sized.saving.per_month),
            "replicas": asdict(sized.saving.replicas),
            "payback_months": sized.saving.payback and asdict(sized.saving.payback),
            "from_output_tokens_per_month": asdict(sized.saving.from_tokens),
            "p_whole_replica": sized.saving.p_replica,
            "p_pays": sized.saving.p_pays,
        },
    }


def _arm(a: ArmSize) -> dict[str, Any]:
    names = ("capacity", "replicas", "gpus", "rent", "per_million_output", "per_million")
    return {
        "method": a.method,
        **{name: asdict(getattr(a, name)) for name in names},
        "kv_tokens": a.kv_tokens,
        "largest_batch": a.largest_batch,
        "at_peak": None if a.at_peak is None else a.at_peak.to_dict(),
    }


def _traffic(d: Demand) -> dict[str, Any]:
    return {
        "source": d.source,
        "requests_per_s": d.mean,
        "peak_requests_per_s": d.peak,
        "prompt_tokens": d.prompt_tokens,
        "output_tokens": d.output_tokens,
        "output_tokens_per_month": d.output_tokens_per_month,
    }


def _what_if(sized: Sized | Refused, currency: str) -> Row:
    if isinstance(sized, Refused):
        return (sized.site.name, "–", "–", "–", sized.why)
    basis = "measured" if sized.is_measured else "not measured"
    return (
        f"{sized.site.name} ({basis})",
        *(_whole(a.gpus) for a in (sized.plain, sized.speculative)),
        _money(sized.saving.per_month, currency),
        sized.decision.recommendation,
    )


def _words(schedule: Schedule, largest: int) -> str:
    ranges = schedule.ranges(largest)
    return ", ".join(
        f"{f'γ {gamma}' if gamma else 'off'} at {first if first == last else f'{first} to {last}'}"
        for first, last, gamma in ranges
    )


def _load(arm: ArmSize, rate: float, spares: int) -> str:
    """Spares are idle."""
    serving = arm.replicas.value - spares
    return "–" if math.isinf(serving) else f"{rate / serving / arm.capacity.value:.0%}"


def _latency_name(name: str) -> str:
    metric, percentile = name.split("_p")
    return f"{metric.upper()} p{percentile} at the peak"


def _latency(arm: ArmSize, name: str) -> str:
    if arm.at_peak is None:
        return "–"
    metric, percentile = name.split("_p")
    figure = getattr(arm.at_peak, metric).quantile(int(percentile) / 100)
    scale, unit = (1.0, "s") if figure.value >= 1 else (1e3, "ms")
    value, low, high = (f"{scale * seconds:.3g}" for seconds in figure)
    return f"{value} [{low}, {high}] {unit}"


def _whole(e: Estimate) -> str:
    return _range(e, ".0f")


def _range(e: Estimate, form: str, endless: str = "none") -> str:
    """`7 [6, 9]`. endless: stands for infinity; of replicas, that no number of them is enough"""
    return _between(e, lambda v: endless if math.isinf(v) else f"{v:{form}}")


def _money(e: Estimate, currency: str) -> str:
    return f"{_between(e, _amount)} {currency}"


def _amount(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"


def _absolute(e: Estimate) -> Estimate:
    return e if e.value >= 0 else Estimate(-e.value, -e.high, -e.low)


def _saved(value: float) -> str:
    if math.isinf(value):
        return "(only speculation serves)" if value > 0 else "(only plain decoding serves)"
    return _amount(value)


def _tokens(e: Estimate) -> str:
    return _between(e, lambda v: "never" if math.isinf(v) else _count(v))


def _between(e: Estimate, shown: Callable[[float], str]) -> str:
    value, low, high = (shown(v) for v in (e.value, e.low, e.high))
    return value if value == low == high else f"{value} [{low}, {high}]"


def _count(value: float) -> str:
    for unit, sign in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g} {sign}"
    return f"{value:.3g}"


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _spares(count: int) -> str:
    return f" and {count} spare replica{'s' * (count > 1)}" if count else ""


def _place(cell: NextCell) -> str:
    return f"{'plain decoding' if cell.gamma == 0 else f'γ {cell.gamma}'} at batch {cell.batch_size}"
