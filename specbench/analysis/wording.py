"""The verdict in plain words: what to do, what it gains and saves, whether outputs changed, what is uncertain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scipy.special import bdtrc

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.marks import VOIDING
from specbench.analysis.statistics import LEVEL
from specbench.analysis.verdict import Decision, outcome
from specbench.equivalence.greedy import AS_TEXT, NoiseFloor, divergence_bound
from specbench.speculation import UNKNOWN

_MOST_FIGURES = 6


def verdict_text(
    decision: Decision,
    by_workload: Mapping[str, Decision],
    cells: Sequence[CellSummary],
    noise: NoiseFloor,
    machine: str,
    missing: int = 0,
) -> str:
    """One paragraph. missing: measurements that were planned and are not there"""
    speculative = [c for c in cells if c.is_speculative]
    chosen = [c for c in speculative if (c.method, c.gamma) == (decision.method, decision.gamma)]
    shown = chosen or _best_by_workload([c for c in speculative if c.is_evidence] or speculative)
    if any(c.is_open_loop for c in cells):
        shown = [c for c in speculative if c.is_open_loop]
        parts = (_missing(missing), _open_loop(shown), _outputs(shown, decision), _uncertain(shown, cells, noise))
        return " ".join(part for part in (*parts, f"Measured on {machine}.") if part)
    sentences = [
        _missing(missing),
        _split(by_workload),
        _advice(decision, by_workload, chosen, cells),
        _gains(shown, several_arms=not chosen),
        _saving([c for c in chosen if outcome(c) == "gain" and decision.enables(c)]),
        _as_deployed(cells),
        _speed_noise(cells),
        _outputs(shown, decision),
        _uncertain(shown, cells, noise),
        f"Measured on {machine}.",
    ]
    return " ".join(s for s in sentences if s)


def _missing(missing: int) -> str:
    return f"{missing} planned measurements are missing (specbench sweep --resume)." if missing else ""


def _advice(
    decision: Decision,
    by_workload: Mapping[str, Decision],
    chosen: Sequence[CellSummary],
    cells: Sequence[CellSummary],
) -> str:
    speculative = [c for c in cells if c.is_speculative]
    larger = any(outcome(c) == "gain" for c in speculative)
    if decision.recommendation == "DISABLE":
        if any(d.method for d in by_workload.values()):
            return "Leave speculative decoding off where these workloads are served together: no method gains on all."
        if larger:
            return "Leave speculative decoding off: none gains from the smallest batch size on, only larger ones do."
        return "Leave speculative decoding off: no measured method gains with unchanged outputs."
    if not chosen:
        why = f"no gain is shown{' from the smallest batch size on' if larger else ''}, and none is ruled out"
        if speculative and not any(c.is_baseline for c in cells):
            why = "without a baseline there is no speedup (--baseline-url)"
        elif not speculative:
            why = "nothing but the baseline was measured" if cells else "nothing was measured"
        elif all(c.status == "failed" for c in speculative):
            why = "no speculative cell could be measured"
        return f"Not enough evidence to decide: {why}."
    sizes, limit = sorted({c.batch_size for c in chosen}), decision.up_to_batch_size or 0
    unsure = sorted({c.batch_size for c in chosen if c.batch_size <= limit and outcome(c) != "gain"})
    gaining = [size for size in sizes if size <= limit and size not in unsure]
    what = f"speculative decoding with {named(decision).replace(', ', ' and ')}"
    known = any(outcome(c) == "no gain" or (c.speedup or 2) <= 1 for c in chosen if c.batch_size > limit)
    beyond = "not beyond" if known else "beyond which nothing is sure"
    if unsure:
        up_to = "" if limit == sizes[-1] else f" up to batch size {limit}, {beyond}"
        return f"Enable {what}{up_to}: it gains at batch size {_list(gaining)}; not resolved at {_list(unsure)}."
    if limit < sizes[-1]:
        return f"Enable {what} up to batch size {limit}, {beyond}."
    where = (
        f"every batch size measured ({_list(sizes)})"
        if len(sizes) > 1
        else f"batch size {limit}, the only one measured"
    )
    return f"Enable {what}: it gains at {where}."


def _gains(cells: Sequence[CellSummary], *, several_arms: bool) -> str:
    measured = [c for c in cells if c.speedup is not None]
    if not measured:
        return ""
    if several_arms and not any(c.is_evidence for c in measured):
        return "No cell's speedup is fit for a decision, see their marks."
    several_workloads = len({c.workload for c in measured}) > 1
    figures = [
        f"{c.speedup:.2f}×{_interval(c, named=i == 0)} at batch size {c.batch_size}"
        + (f" on {c.workload}" if several_workloads else "")
        + (f" with {c.label}" if several_arms else "")
        for i, c in enumerate(sorted(measured, key=lambda c: (c.workload, c.batch_size)))
    ]
    more = f" (and {len(figures) - _MOST_FIGURES} more in the table)" if len(figures) > _MOST_FIGURES else ""
    what = "The best that was measured gave" if several_arms else "It gave"
    return f"{what} {_list(figures[:_MOST_FIGURES])}{more}, in output tokens per second against plain decoding."


def _open_loop(cells: Sequence[CellSummary]) -> str:
    """What users waited for, best rate by rate; whether it pays is for a closed loop to say."""
    known = [c for c in cells if c.latency_speedup is not None]
    if not known:
        return "No request of a speculative arm pairs with the baseline's."
    several_workloads = len({c.workload for c in known}) > 1
    figures = []
    for place in dict.fromkeys((c.workload, c.request_rate) for c in known):
        best = max((c for c in known if (c.workload, c.request_rate) == place), key=lambda c: c.latency_speedup or 0)
        good = "" if best.goodput_percent is None else f" ({best.goodput_percent:.0f}% within the SLO)"
        where = f" on {best.workload}" if several_workloads else ""
        figures.append(f"{best.latency_speedup:.2f}× at {best.load_in_words}{where} with {best.label}{good}")
    more = f" (and {len(figures) - _MOST_FIGURES} more in the table)" if len(figures) > _MOST_FIGURES else ""
    return (
        "Requests came at a given rate, so throughput is theirs and decides nothing: for that, sweep batch sizes. Mean "
        f"end-to-end latency without speculation, over the best arm's: {_list(figures[:_MOST_FIGURES])}{more}."
    )


def named(decision: Decision) -> str:
    """The arm that is enabled, in words; an attached server may tell neither method nor gamma."""
    what = "a method that the server does not tell" if decision.method == UNKNOWN else str(decision.method)
    if decision.policy is not None:
        return f"{what.partition('-')[0]}, gamma {decision.policy}"
    return f"{what}, gamma {decision.gamma}" if decision.gamma else f"{what}, gamma not reported"


def _split(by_workload: Mapping[str, Decision]) -> str:
    if len({(d.recommendation, d.method, d.gamma) for d in by_workload.values()}) < 2:
        return ""
    clauses = [
        f"{name}: {d.recommendation}"
        + (f" ({named(d)})" if d.policy else f" ({d.method} γ{d.gamma})" if d.method else "")
        for name, d in by_workload.items()
    ]
    return f"Workload by workload: {'; '.join(clauses)}. Served together:"


def _saving(cells: Sequence[CellSummary]) -> str:
    """On the cells that gain and are recommended."""
    priced = [c for c in cells if c.cost_per_million_output_tokens is not None and c.saving_percent is not None]
    if not priced:
        return ""
    best = max(priced, key=lambda c: c.saving_percent or 0)
    cost, saving = best.cost_per_million_output_tokens or 0.0, best.saving_percent or 0.0
    text = (
        f"At batch size {best.batch_size} a million output tokens cost {cost:.3g} {best.currency}, "
        f"{saving:.0f}% less than without speculation."
    )
    if best.gpus_saved is None:
        return text
    if best.gpus_saved <= 0:
        return f"{text} At the monthly volume given no whole GPU is saved, so the money saved is nil."
    paid = f", which pays back in {best.payback_months:.1f} months" if best.payback_months is not None else ""
    return f"{text} At the monthly volume given it saves {best.gpus_saved} GPUs{paid}."


def _as_deployed(cells: Sequence[CellSummary]) -> str:
    """How the baseline that users have today compares with the matched one that speedups are of."""
    measured = [c for c in cells if c.as_deployed and c.speedup is not None]
    if not measured:
        return ""
    figures = [f"{c.speedup:.2f}×{_interval(c, named=False)} at batch size {c.batch_size}" for c in measured]
    return (
        f"Without speculation the engine's own defaults give {_list(figures[:_MOST_FIGURES])} of the matched baseline: "
        "divide by that for the gain over what is deployed."
    )


def _speed_noise(cells: Sequence[CellSummary]) -> str:
    """How fast the baseline is beside itself: what no speedup can be told apart from."""
    measured = [c for c in cells if c.again and c.speedup is not None]
    if not measured:
        return ""
    figures = [
        f"{c.speedup:.2f}×{_interval(c, named=False)} at batch size {c.batch_size}"
        + ("" if c.speedup_sd_percent is None else f" (pairs scatter by {c.speedup_sd_percent:.1f}%)")
        for c in measured
    ]
    return f"Noise floor of speed: against itself the baseline gives {_list(figures[:_MOST_FIGURES])}."


def _outputs(cells: Sequence[CellSummary], decision: Decision) -> str:
    """On the cells that are recommended, then on those that diverge; without a recommendation, on all of `cells`."""
    limit = decision.up_to_batch_size
    checked = [c for c in cells if c.equivalence in ("EXACT", "NEAR_TIE") and c.batch_size <= (limit or c.batch_size)]
    divergent = [c for c in cells if c.equivalence == "DIVERGENT"]
    sentences = []
    if checked:
        prompts = min(c.equivalence_prompts for c in checked)
        rate = divergence_bound(prompts)
        bound = f"{prompts} prompts per cell; " + (
            f"the rate of divergence is below {rate:.1%}" if rate < 0.1 else "too few to bound rare divergences"
        )
        sentences.append(
            f"Outputs differ from plain decoding only where two tokens are as good as tied ({bound})."
            if any(c.equivalence == "NEAR_TIE" for c in checked)
            else f"Outputs are identical to plain decoding, {_how(checked)} ({bound})."
        )
    if divergent:
        sizes = _list(sorted({c.batch_size for c in divergent}))
        sentences.append(f"Outputs CHANGED at batch size {sizes}: {divergent[0].equivalence_detail}.")
    if cells and not sentences:
        sentences.append("Whether outputs are unchanged was not checked.")
    return " ".join(sentences)


def _how(cells: Sequence[CellSummary]) -> str:
    return "as text" if any(AS_TEXT in c.equivalence_detail for c in cells) else "token by token"


def _uncertain(shown: Sequence[CellSummary], cells: Sequence[CellSummary], noise: NoiseFloor) -> str:
    doubts = []
    bases = {c.speedup_ci_basis for c in shown}
    if "within one launch, by turns" in bases:
        doubts.append(
            "intervals are of turns at the same two servers and do not show how launches differ (restart them and "
            "measure again)"
        )
    elif any(basis and basis.startswith("within one launch") for basis in bases):
        doubts.append("intervals are from one launch and do not show how launches differ (use --replicates)")
    if "replicates" in bases and any(c.replicates < 3 for c in shown):
        doubts.append("two launches per arm make wide intervals")
    if any(c.speedup is not None and c.speedup_ci_low is None and c.replicates > 1 for c in shown):
        doubts.append("so few launches bound no speedup while one looks after each (--until-ci)")
    if any(c.speedup is None and c.status == "ok" and not c.is_open_loop for c in shown):
        doubts.append("some cells have no speedup, see their marks")
    if any(outcome(c) == "gain" for c in shown) and (luck := _luck(cells)):
        doubts.append(luck)
    void = sorted({mark.code for c in shown for mark in c.marks if mark.code in VOIDING})
    if void:
        doubts.append(f"marked cells are no evidence ({', '.join(void)})")
    if owing := [c for c in shown if c.owes_gain_to_degenerate]:
        sizes = _list(sorted({c.batch_size for c in owing}))
        where = _list(sorted({c.workload for c in owing}))
        doubts.append(f"on {where} at batch size {sizes} only degenerate requests make it faster")
    if degenerate := sum(c.degenerate_requests for c in shown):
        total = sum(c.requests for c in shown)
        doubts.append(f"{degenerate} of {total} requests loop or are empty, and are left out of acceptance and latency")
    if noise.rate:
        doubts.append(f"the baseline differs from itself in {noise.rate:.1%} of outputs")
    if failed := sum(c.status == "failed" for c in cells):
        doubts.append(f"{failed} of {len(cells)} cells failed")
    return f"Uncertain: {'; '.join(doubts)}." if doubts else ""


def _luck(cells: Sequence[CellSummary]) -> str:
    """Among many cells an interval lies above 1 by chance now and then: one in forty, each at 95 %."""
    judged = [c for c in cells if c.is_speculative and c.is_evidence]
    gains = sum((c.speedup_ci_low or 0) > 1 for c in judged)
    if not gains or bdtrc(gains - 1, len(judged), (1 - LEVEL) / 2) < 1 - LEVEL:
        return ""
    return f"{gains} of {len(judged)} cells show a gain, which chance alone may do among so many (use --replicates)"


def _best_by_workload(cells: Sequence[CellSummary]) -> list[CellSummary]:
    best: dict[str, CellSummary] = {}
    for cell in sorted(cells, key=lambda c: c.speedup or 0):
        best[cell.workload] = cell
    return list(best.values())


def _interval(cell: CellSummary, *, named: bool) -> str:
    if cell.speedup_ci_low is None:
        return ""
    name = f"{'always-valid ' if cell.speedup_ci_basis == 'always-valid' else ''}95% interval " if named else ""
    if not cell.has_interval:
        return f" ({name}not determined, launches differ too much)"
    return f" ({name}{cell.speedup_ci_low:.2f}–{cell.speedup_ci_high:.2f})"


def _list(items: Sequence[object]) -> str:
    texts = [str(item) for item in items]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
