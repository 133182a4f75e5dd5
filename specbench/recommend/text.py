"""A recommendation as a person reads it: one screen, what to paste at its end."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from specbench.analysis.verdict import Decision
from specbench.recommend.arrivals import AtRate, Load
from specbench.recommend.by_batch import BestAt, Contender
from specbench.recommend.draws import Range
from specbench.recommend.flags import Paste
from specbench.recommend.measure import MeasuredSchedule
from specbench.recommend.measured_rates import MeasuredRate
from specbench.recommend.memory import MemoryCost
from specbench.recommend.recommendation import Recommendation
from specbench.schedule import Schedule

_WIDTH = 116
_MOST_EXCLUDED = 4


def text(r: Recommendation) -> str:
    """Everything, paragraphs apart."""
    blocks = [
        _wrapped(_advice(r)),
        _best(r.best_by_batch),
        _wrapped(_turn_off(r), _alternatives(r)),
        _wrapped(*map(_rate, r.at_rates), *map(_measured, r.measured_rates)),
        _wrapped(_memory(r.memory)),
        _rules(r),
        _wrapped(*_excluded(r), *(f"Caveat: {caveat}." for caveat in r.caveats)),
        _paste(r.paste),
    ]
    return "\n\n".join(block for block in blocks if block)


def headline(r: Recommendation) -> str:
    """What to do, in a line."""
    mark = "SIMULATED: " if r.simulated else ""
    if r.method is not None and r.schedule is not None:
        return f"{mark}{r.method} with {gammas_in_words(r.schedule)}"
    if r.decision.recommendation == "DISABLE":
        return f"{mark}leave speculation off"
    if r.loses_here:
        return f"{mark}leave speculation off at this concurrency"
    return f"{mark}not enough evidence"


def gammas_in_words(schedule: str) -> str:
    """`gamma 4 at batch size 1-4, 2 at 5-8, off from 9 on`."""
    steps = Schedule.parse(schedule).steps
    if len(steps) == 1:
        return f"gamma {steps[0][1]} at every batch size"
    parts: list[str] = []
    for (start, gamma), end in zip(steps, [*(start - 1 for start, _ in steps[1:]), None], strict=True):
        named = "gamma " * (bool(gamma) and not any("gamma" in part for part in parts))
        batch = "batch size " * (start == 1)
        where = f"from {start} on" if end is None else f"at {batch}{start}" + (f"-{end}" if end > start else "")
        parts.append(f"{named}{gamma or 'off'} {where}")
    return ", ".join(parts)


def schedule_text(m: MeasuredSchedule) -> str:
    """Whether a schedule delivered, batch size by batch size."""
    rows = [("batch", "gamma", "predicted [95 %]", "measured [95 %]", f"γ{m.fixed_gamma} throughout", "delivered")]
    for c in m.checks:
        measured, fixed = ("no evidence" if r is None else _range(r) for r in (c.measured, c.fixed))
        gamma = str(c.gamma) if c.gamma else "off"
        rows.append((str(c.batch_size), gamma, _range(c.predicted), measured, fixed, c.delivered or "-"))
    title = f"Measured: {m.method} with {gammas_in_words(m.schedule)}; speedup over plain decoding"
    failed = f"\n{m.failures} measurements failed." if m.failures else ""
    return f"{title}\n{_columns(rows)}{failed}\nIts run, with every figure: specbench report {m.run}"


def _advice(r: Recommendation) -> str:
    where = f"On {r.machine}, {' and '.join(r.workloads)}."
    if r.method is None or r.gain is None:
        return f"{_capital(headline(r))}: {_why_nothing(r)} {where}"
    beyond = (
        f" {r.share_beyond_measured:.0%} of that time is beyond the largest measured batch size, where it is off."
        if r.share_beyond_measured >= 0.005
        else ""
    )
    return (
        f"{_capital(headline(r))}: {_range(r.gain)} times as fast over the concurrency "
        f"({r.concurrency.source}).{beyond} {_verdict(r)} {where}"
    )


def _why_nothing(r: Recommendation) -> str:
    """Why nothing is to be switched on."""
    if r.decision.recommendation == "DISABLE":
        return "no method gains at a batch size where it may be on."
    if r.loses_here:
        return (
            f"no arm gains at any batch size that it has ({r.concurrency.source}). The sweep's verdict is "
            f"{r.decision.recommendation}, over all batch sizes measured."
        )
    if r.decision.recommendation == "NOT ENOUGH EVIDENCE":
        return (
            "no arm is shown to gain from the smallest batch size on, and none is ruled out: more launches "
            "(--replicates) would tell. Below, batch size by batch size."
        )
    return "what gains is at batch sizes that the given concurrency never has, and there no gain is ruled out."


def _verdict(r: Recommendation) -> str:
    """How the sweep's own verdict, on one gamma that stays, goes together with the schedule."""
    d: Decision = r.decision
    if d.method is None:
        return (
            f"The sweep's verdict is {d.recommendation}: it is on one gamma for all batch sizes from the smallest on; "
            "a schedule can be off where that one loses."
        )
    said = f"The sweep's verdict is {d.recommendation} with {d.method} γ{d.gamma}"
    if d.method == r.method:
        return f"{said}, one gamma for all batch sizes."
    return f"{said}, the largest sum over the batch sizes measured; over this concurrency {r.method} gains more."


def _best(found: Sequence[BestAt]) -> str:
    if not found:
        return ""
    rows = [("batch", "best", "speedup [95 %]", "P(best)", "not told apart from it")]
    for at in found:
        ties = ", ".join(f"{c.label} ({c.p_best:.2f})" for c in at.ties) or "-"
        rows.append((str(at.batch_size), at.best.label, _speedup(at.best), f"{at.best.p_best:.2f}", ties))
    return _columns(rows)


def _speedup(c: Contender) -> str:
    return "1" if c.method == "none" else _range(c.speedup)


def _turn_off(r: Recommendation) -> str:
    off = r.turn_off_above
    if off is None:
        return ""
    name = r.method or "the best method"
    how = "interpolated: ln speedup over ln batch size"
    low, high = (
        f"beyond {off.largest}" if x is None else f"{x:.1f}" for x in (off.batch_size.low, off.batch_size.high)
    )
    if off.batch_size.value is None:
        sure = "surely so" if off.batch_size.low is None else f"95 %: from {low} on it may not"
        return f"Turn off above: still pays at batch size {off.largest}, the largest measured ({name}; {sure})."
    if off.batch_size.value == 0:
        return f"Turn off above: it pays at no measured batch size ({name})."
    return f"Turn off above: batch size {off.batch_size.value:.1f} [{low}, {high}] ({name}; {how})."


def _alternatives(r: Recommendation) -> str:
    if r.method is None or r.gain is None:
        return ""
    parts: list[str] = []
    if r.fixed is not None and r.fixed.gain is not None:
        parts.append(f"one gamma throughout, γ{r.fixed.gamma}: {_range(r.fixed.gain)}")
    others = [m for m in r.methods if m.method != r.method]
    parts += [f"{m.method}: {_range(m.gain)} (P(best) {m.p_best:.2f})" for m in others]
    if r.free_choice is not None and others:
        parts.append(f"if the engine could also change the method by batch size: {_range(r.free_choice)}")
    own = next(m for m in r.methods if m.method == r.method)
    return (
        f"Instead ({r.method} as above: {_range(r.gain)}, P(best) {own.p_best:.2f}): {'; '.join(parts)}."
        if parts
        else ""
    )


def _rate(at: AtRate) -> str:
    if at.refused is not None:
        return f"At {at.rate:g} requests/s: no prediction, {at.refused}"
    assert at.plain is not None
    assert at.speculative is not None
    plain, fast = at.plain, at.speculative
    if at.latency_speedup is None:
        behind, keeps = ("plain decoding", fast) if plain.latency.value is None else ("speculation", plain)
        return (
            f"At {at.rate:g} requests/s {behind} cannot keep up; the other arm holds {_range(keeps.concurrency, 1)} "
            f"requests at once, {_range(keeps.latency)} s each{_waiting(keeps)}."
        )
    return (
        f"At {at.rate:g} requests/s (predicted from the closed loop by Little's law): latency "
        f"{_range(plain.latency)} → {_range(fast.latency)} s, {_range(at.latency_speedup)} times as fast, "
        f"with {_range(plain.concurrency, 1)} → "
        f"{_range(fast.concurrency, 1)} requests at once{_waiting(fast)}; at most {_range(plain.capacity)} → "
        f"{_range(fast.capacity)} requests/s."
    )


def _waiting(load: Load) -> str:
    return f" (some wait {load.waiting:.0%} of the time)" if load.waiting and load.waiting >= 0.01 else ""


def _measured(m: MeasuredRate) -> str:
    predicted = ""
    if m.predicted is not None and m.predicted.latency_speedup is not None and m.predicted.plain is not None:
        predicted = (
            f"; predicted were {_range(m.predicted.latency_speedup)} times and "
            f"{_range(m.predicted.plain.latency)} s without"
        )
    elif m.predicted is not None:
        predicted = f"; not predicted: {(m.predicted.refused or 'one arm cannot keep up').rstrip('.')}"
    return (
        f"At {m.rate:g} requests/s (measured, {m.method} γ{m.gamma} on {m.workload}): latency {m.plain_latency:.3g} → "
        f"{m.latency:.3g} s, {_range(m.latency_speedup)} times as fast, with {m.plain_concurrency:.1f} → "
        f"{m.concurrency:.1f} requests at once{predicted}."
    )


def _memory(m: MemoryCost | None) -> str:
    if m is None or m.kv_capacity_tokens is None or m.plain_kv_capacity_tokens is None:
        return ""
    lost = m.kv_tokens_lost or 0
    size = "" if not m.kv_bytes_lost else f", {_mib(m.kv_bytes_lost)}"
    text = f"Memory: the KV cache holds {m.plain_kv_capacity_tokens:,} → {m.kv_capacity_tokens:,} tokens"
    text += f" ({lost:,} lost{size})" if lost else " (none lost)"
    if m.largest_batch is not None and m.request_tokens is not None:
        text += f": {m.plain_largest_batch} → {m.largest_batch} requests of {m.request_tokens:.0f} tokens at once"
    if m.drafter_weight_bytes:
        text += f"; the drafter's weights take {_mib(m.drafter_weight_bytes)}"
    return f"{text}."


def _rules(r: Recommendation) -> str:
    if not r.best_by_batch:
        return ""
    rows = [("rule of thumb", "here", "on")]
    for rule in r.thumb_rules:
        count = f" ({rule.held} held, {rule.misled} misled)" if rule.held + rule.misled > 1 else ""
        rows.append((rule.rule, f"{rule.verdict}{count}", rule.figure))
    return _columns(rows)


def _excluded(r: Recommendation) -> list[str]:
    shown = [f"{e.arm} at batch {e.batch_size} on {e.workload}: {e.reason}" for e in r.excluded[:_MOST_EXCLUDED]]
    more = len(r.excluded) - len(shown)
    lines = [f"Left out: {line if line.endswith('.') else f'{line}.'}" for line in shown]
    return [*lines, *([f"Left out: {more} more cells (--json)."] if more > 0 else [])]


def _paste(p: Paste | None) -> str:
    if p is None:
        return ""
    files = [f"{name}:\n{textwrap.indent(content, '  ')}" for name, content in p.files.items()]
    notes = [textwrap.fill(f"# {note}", _WIDTH, subsequent_indent="# ", break_on_hyphens=False) for note in p.notes]
    return "\n".join([*notes, *files, *([p.command] if p.command else [])])


def _range(r: Range, digits: int = 2) -> str:
    """`1.31 [1.20, 1.43]`; `?` where something is not known or has no end."""
    if r.value is None:
        return "?"
    low, high = ("?" if end is None or end > 10 * r.value else f"{end:.{digits}f}" for end in (r.low, r.high))
    return f"{r.value:.{digits}f}" if (r.low, r.high) == (None, None) else f"{r.value:.{digits}f} [{low}, {high}]"


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    lines = ("  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _wrapped(*sentences: str) -> str:
    kept: Iterable[str] = filter(None, sentences)
    return "\n".join(textwrap.fill(s, _WIDTH, subsequent_indent="  ", break_on_hyphens=False) for s in kept)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"
