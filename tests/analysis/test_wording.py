"""What the verdict's words say of what is not known."""

from __future__ import annotations

from typing import Any

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.marks import Mark
from specbench.analysis.verdict import decide
from specbench.analysis.wording import named, verdict_text
from specbench.equivalence.greedy import NoiseFloor


def cell(batch_size: int, speedup: float | None, spread: float = 0.02, gamma: int = 4, **changes: Any) -> CellSummary:
    values: dict[str, Any] = {
        **{"backend": "reference", "target": "demo", "workload": "chat", "method": "ngram", "as_deployed": False},
        **{"gamma": gamma, "drafter": None, "batch_size": batch_size, "temperature": 0.0, "status": "ok"},
        **{"speedup": speedup, "equivalence": "EXACT", "replicates": 3, "equivalence_prompts": 300},
    }
    if speedup is not None:
        values |= {"speedup_ci_low": speedup - spread, "speedup_ci_high": speedup + spread}
    return CellSummary(**{**values, **changes})


def text(*cells: CellSummary) -> str:
    decision = decide(cells)
    return verdict_text(decision, {"chat": decision}, cells, NoiseFloor(0, 0), "a machine")


def test_a_gain_in_one_of_many_cells_may_be_luck() -> None:
    losers = [cell(1, 0.98, 0.05, gamma=gamma) for gamma in range(5, 28)]
    assert "1 of 24 cells show a gain, which chance alone may do among so many" in text(cell(1, 1.09), *losers)
    assert "chance alone" not in text(cell(1, 1.5), cell(4, 1.3))


def test_an_arm_whose_gamma_follows_a_rule_is_named_by_it() -> None:
    schedule = {"method": "ngram-schedule", "schedule": "1=4+5=2+9=0"}
    told = text(cell(1, 1.5, **schedule), cell(4, 1.3, **schedule))
    assert "Enable speculative decoding with ngram and gamma schedule:1=4+5=2+9=0:" in told
    rule = decide([cell(1, 1.5, method="ngram-threshold", adaptive="threshold+max=5")])
    assert (named(rule), rule.policy) == ("ngram, gamma adaptive:threshold+max=5", "adaptive:threshold+max=5")
    assert decide([cell(1, 1.5)]).policy is None


def test_beyond_the_last_gain_is_a_loss_or_nothing_known() -> None:
    assert "up to batch size 1, not beyond" in text(cell(1, 1.5), cell(4, 0.8))
    assert "up to batch size 1, beyond which nothing is sure" in text(cell(1, 1.5), cell(4, None))


def test_only_marks_that_void_are_called_no_evidence() -> None:
    caveat, void = Mark("busy_machine", "Busy."), Mark("client_lag", "Void.")
    assert "no evidence" not in text(cell(1, 1.5, marks=(caveat,)))
    told = text(cell(1, 1.5, marks=(caveat, void)))
    assert "marked cells are no evidence (client_lag)" in told
