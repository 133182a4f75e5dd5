"""What a gate found, cell by cell and metric by metric, and what that means for the build."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from specbench.analysis.json_values import to_json_value
from specbench.comparison.snapshot import CellKey

Outcome = Literal["failed", "regression", "inconclusive", "no evidence", "not worse", "equivalent", "improvement"]
Verdict = Literal["FAIL", "INCONCLUSIVE", "PASS"]

FAILING = frozenset({"failed", "regression"})
UNDECIDED = frozenset({"inconclusive", "no evidence"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One metric of one cell.

    about: the metric's name, `min_speedup` or `outputs`
    before, after: geometric means over replicates, in the metric's own unit;  of a floor: what is asked, what is there
    change, low, high: after ÷ before and its interval (of a floor: the speedup and its own); None without one
    p_regression: of "no worse than the margin", adjusted for all that is asked at once (Holm)
    replicates: on either side, of which there is a figure
    replicates_needed: on either side, in all, that would probably decide; None where no reasonable number would
    """

    cell: CellKey
    about: str
    outcome: Outcome
    text: str
    before: float | None = None
    after: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p_regression: float | None = None
    replicates: tuple[int, int] | None = None
    replicates_needed: int | None = None


@dataclass(frozen=True, slots=True)
class GateResult:
    """baseline: None where only floors or outputs were asked about

    not_compared: cells that only one side has;  changes: what differs between the sides;  caveats: what is not seen
    """

    baseline: str | None
    candidate: str
    simulated: bool
    margin: float
    level: float
    paired: bool
    findings: tuple[Finding, ...]
    not_compared: tuple[str, ...]
    changes: tuple[str, ...]
    caveats: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        outcomes = {f.outcome for f in self.findings}
        return "FAIL" if outcomes & FAILING else "INCONCLUSIVE" if outcomes & UNDECIDED else "PASS"

    @property
    def exit_code(self) -> int:
        return {"PASS": 0, "FAIL": 3, "INCONCLUSIVE": 4}[self.verdict]

    @property
    def replicates_needed(self) -> int | None:
        """In which all that is undecided for want of data would probably be decided; None where nothing is."""
        needed = [f.replicates_needed for f in self.findings if f.outcome == "inconclusive" and f.replicates_needed]
        return max(needed, default=None)

    @property
    def wants_more(self) -> bool:
        """Whether more replicates could still change the verdict."""
        outcomes = {f.outcome for f in self.findings}
        return not outcomes & FAILING and "inconclusive" in outcomes

    def of(self, outcomes: Iterable[str]) -> list[Finding]:
        wanted = set(outcomes)
        return [f for f in self.findings if f.outcome in wanted]

    def to_json(self) -> dict[str, Any]:
        record = {
            **{"verdict": self.verdict, "exit_code": self.exit_code, "replicates_needed": self.replicates_needed},
            **{name: value for name, value in asdict(self).items() if name != "findings"},
            "findings": [{**asdict(f), "cell": f.cell._asdict()} for f in self.findings],
        }
        return {name: to_json_value(value) for name, value in record.items()}
