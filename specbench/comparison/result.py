"""What a comparison says: run by run, what changed; figure by figure, what that did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from specbench.analysis.json_values import to_json_value
from specbench.comparison.snapshot import CellKey
from specbench.differences import Difference

Outcome = Literal["better", "worse", "same", "none found", "not judged"]
Basis = Literal["replicates", "paired replicates", "within one launch"]

OUTCOMES: tuple[Outcome, ...] = ("better", "worse", "same", "none found", "not judged")


@dataclass(frozen=True, slots=True)
class Effect:
    """One metric of one cell, in the reference and in another run.

    run:       letter of the other run;  other_cell: its cell, the same as `cell` unless two arms are compared
    before, after: geometric means over replicates, in the metric's own unit; None where there is no figure
    change, low, high: after ÷ before with its own interval;  basis: what that rests on
    p, p_holm: of "no change", alone and adjusted for all that is compared at once; None where nothing varies
    detectable: a change by this factor (above 1; or by its inverse) would have been found with 90% probability; None
        where none below a thousandfold one would
    replicates: on either side, of which there is a figure
    text:      why there is no judgement; empty where there is one
    """

    run: str
    cell: CellKey
    other_cell: CellKey
    metric: str
    outcome: Outcome
    before: float | None = None
    after: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    basis: Basis | None = None
    p: float | None = None
    p_holm: float | None = None
    detectable: float | None = None
    replicates: tuple[int, int] = (0, 0)
    text: str = ""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Whether outputs are those of plain decoding, where that is not the same in both runs."""

    cell: CellKey
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.cell}: {self.before} → {self.after}"


@dataclass(frozen=True, slots=True)
class Against:
    """A run against the reference.

    refused:   why nothing of it is compared;  left_out: what is not, and why
    changes:   what it was measured on and made with that the reference was not
    only_here, only_in_reference: cells that the other lacks
    """

    run: str
    refused: tuple[str, ...] = ()
    changes: tuple[Difference, ...] = ()
    left_out: tuple[str, ...] = ()
    only_here: tuple[CellKey, ...] = ()
    only_in_reference: tuple[CellKey, ...] = ()
    outputs: tuple[Outputs, ...] = ()
    effects: tuple[Effect, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Whether any of its figures is."""
        return any(e.outcome != "not judged" for e in self.effects)

    def count(self, outcome: Outcome) -> int:
        return Counter(e.outcome for e in self.effects)[outcome]


@dataclass(frozen=True, slots=True)
class Run:
    """letter: A is the reference;  path: as given"""

    letter: str
    path: str
    run: str
    created_at: str
    machine: str
    simulated: bool
    replicates: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """family: how many figures were judged at once;  level: of intervals and of the family"""

    runs: tuple[Run, ...]
    against: tuple[Against, ...]
    metrics: tuple[str, ...]
    level: float
    family: int
    caveats: tuple[str, ...]

    @property
    def reference(self) -> Run:
        return self.runs[0]

    @property
    def is_simulated(self) -> bool:
        return any(run.simulated for run in self.runs)

    @property
    def exit_code(self) -> int:
        """4 where of some run nothing could be judged."""
        return 0 if all(a.is_judged for a in self.against) else 4

    def effects(self) -> Iterable[Effect]:
        return (effect for against in self.against for effect in against.effects)

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            **{name: value for name, value in asdict(self).items() if name not in ("runs", "against")},
            "exit_code": self.exit_code,
            "runs": [asdict(run) for run in self.runs],
            "against": [_against(against) for against in self.against],
        }
        return {name: to_json_value(value) for name, value in record.items()}


def _against(against: Against) -> dict[str, Any]:
    return {
        **asdict(against),
        "only_here": [key._asdict() for key in against.only_here],
        "only_in_reference": [key._asdict() for key in against.only_in_reference],
        "outputs": [{**asdict(o), "cell": o.cell._asdict()} for o in against.outputs],
        "effects": [
            {**asdict(e), "cell": e.cell._asdict(), "other_cell": e.other_cell._asdict()} for e in against.effects
        ],
    }
