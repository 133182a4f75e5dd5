"""All checks that a claim's inputs allow, and one verdict over them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from specbench.claims import money, payback, roofs, speculation
from specbench.claims.claim import DERIVED, Claim, flag
from specbench.claims.finding import SEVERITY, Finding, Verdict
from specbench.errors import SpecbenchError


@dataclass(frozen=True)
class Check:
    """A function of some inputs of a claim, by the names of its parameters; those with a default may be unknown.

    verdict_on: the input without which it only says what follows from the others; None where it needs what it judges
    """

    judge: Callable[..., Finding]
    verdict_on: str | None = None

    @cached_property
    def inputs(self) -> dict[str, bool]:
        """Whether each input is needed."""
        parameters = inspect.signature(self.judge).parameters.values()
        return {p.name: p.default is inspect.Parameter.empty for p in parameters}

    def missing(self, claim: Claim) -> list[str]:
        return [name for name, needed in self.inputs.items() if needed and getattr(claim, name) is None]

    def __call__(self, claim: Claim) -> Finding:
        return self.judge(**{name: getattr(claim, name) for name in self.inputs})


CHECKS = (
    Check(money.cost_of_tokens, "cost"),
    Check(money.cost_of_baseline_tokens, "baseline_cost"),
    Check(payback.replicas_of_volume, "replicas"),
    Check(money.cost_ratio),
    Check(money.change_by_throughput),
    Check(money.change_by_cost),
    Check(money.change_by_speedup),
    Check(money.speedup_of_rates),
    Check(roofs.weights_fit),
    Check(roofs.baseline_roof),
    Check(roofs.throughput_roof),
    Check(roofs.ridge_of_gpu),
    Check(roofs.intensity_of_decoding),
    Check(roofs.kv_of_the_drafter),
    Check(speculation.speedup_within_length),
    Check(speculation.length_within_gamma),
    Check(speculation.speedup_within_gamma),
    Check(speculation.speedup_of_acceptance),
    Check(speculation.length_of_acceptance),
    Check(speculation.speedup_of_source),
    Check(speculation.acceptance_of_break_even),
    Check(payback.savings_of_costs),
    Check(payback.payback),
    Check(payback.bill_against_rent),
)

CONSEQUENCES = (Check(roofs.stream_roof), Check(payback.engineering_that_pays_back))
"""What only follows, and gives no verdict."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the checks found, the gravest first; the verdict is the gravest one."""

    verdict: Verdict
    findings: tuple[Finding, ...]


def check(claim: Claim) -> Report:
    """Raises SpecbenchError where the inputs allow no check, with what to add."""
    findings = [c(claim) for c in (*CHECKS, *CONSEQUENCES) if not c.missing(claim)]
    verdicts = [f.verdict for f in findings if f.verdict is not None]
    if not verdicts:
        raise SpecbenchError(_nothing_to_check(claim))
    findings.sort(key=lambda f: -1 if f.verdict is None else SEVERITY.index(f.verdict), reverse=True)
    return Report(max(verdicts, key=SEVERITY.index), tuple(findings))


def _nothing_to_check(claim: Claim) -> str:
    ways: dict[tuple[str, ...], None] = {}
    for c in CHECKS:
        missing = c.missing(claim)
        if c.verdict_on and getattr(claim, c.verdict_on) is None:
            missing.append(c.verdict_on)
        if claim.known() & c.inputs.keys():
            ways[tuple(dict.fromkeys(flag(DERIVED.get(name, name)) for name in missing))] = None
    if not ways:
        return "nothing to check: give a claim's figures, as in --gpu H200 --tokens-per-second 38 --cost 0.19."
    nearest: list[tuple[str, ...]] = []
    for way in sorted(ways, key=len):
        if not any(set(shorter) < set(way) for shorter in nearest):
            nearest.append(way)
    return f"too little to check. Add {', or '.join(' and '.join(way) for way in nearest[:3])}."
