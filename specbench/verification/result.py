"""What a verification found, as one object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from specbench.analysis.json_values import to_json_value
from specbench.equivalence.sampling.results import TestResult
from specbench.equivalence.sampling.verdict import SamplingVerdict
from specbench.verification.greedy import GreedyCheck
from specbench.verification.seeds import Seeds

Outcome = Literal["EQUIVALENT", "NOT EQUIVALENT", "INCONCLUSIVE"]
EXIT_CODES: Mapping[Outcome, int] = {"EQUIVALENT": 0, "NOT EQUIVALENT": 3, "INCONCLUSIVE": 4}


class Found(Protocol):
    """What every verification says: settings asked for, the engine's name and version, settings that differ."""

    @property
    def outcome(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def engine(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


def record_of(found: Found, **more: Any) -> dict[str, Any]:
    """As JSON values, with what this verification says besides."""
    head = {"verdict": found.outcome, "engine": found.engine, "settings": found.settings, "notes": found.notes}
    value: dict[str, Any] = to_json_value({**head, **more})
    return value


@dataclass(frozen=True, slots=True)
class Verification:
    """settings: what was asked for · engine: its name and version · notes: settings that are not what was asked for

    greedy: the check at temperature 0 · sampling: at the temperature asked for, None where only greedy was asked for
    control: the baseline's own draws against its log-probabilities, None where it was not made
    acceptance: accepted of drafted tokens among the draws, by arm · seeds: by arm, None without sampling
    seeds_promised: whether this engine, set up so, promises the same tokens for a seed with every method
    """

    settings: Mapping[str, Any]
    engine: str
    notes: tuple[str, ...]
    greedy: GreedyCheck
    sampling: SamplingVerdict | None
    control: TestResult | None
    acceptance: Mapping[str, float | None]
    seeds: Mapping[str, Seeds] | None
    seeds_promised: bool

    @property
    def broken_promises(self) -> tuple[str, ...]:
        """Arms whose seeded outputs are not the baseline's although that is promised."""
        if not self.seeds_promised or self.seeds is None:
            return ()
        return tuple(
            name
            for name, seeds in self.seeds.items()
            if seeds.as_baseline is not None and seeds.as_baseline < seeds.requests
        )

    @property
    def outcome(self) -> Outcome:
        """The worst of the checks."""
        greedy = {arm.verdict for arm in self.greedy.arms.values()}
        sampled = None if self.sampling is None else self.sampling.outcome
        if "DIVERGENT" in greedy or sampled == "NOT EQUIVALENT" or self.broken_promises:
            return "NOT EQUIVALENT"
        if "NOT_CHECKED" in greedy or sampled == "INCONCLUSIVE":
            return "INCONCLUSIVE"
        return "EQUIVALENT"

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]

    def to_json(self) -> dict[str, Any]:
        """Keys: verdict, engine, settings, notes, greedy, sampling, control, acceptance, seeds, seeds_promised."""
        return record_of(
            self,
            greedy=self.greedy.to_json(),
            sampling=None if self.sampling is None else self.sampling.to_json(),
            control=None if self.control is None else self.control.to_json(),
            acceptance=self.acceptance,
            seeds=None if self.seeds is None else {name: s.to_json() for name, s in self.seeds.items()},
            seeds_promised=self.seeds_promised,
        )
