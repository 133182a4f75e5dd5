"""The decision follows from intervals, equivalence and marks, and from nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.marks import VOIDING, Mark
from specbench.analysis.verdict import Decision, decide, outcome


def cell(
    batch_size: int, speedup: float | None, spread: float | None = 0.02, *, gamma: int = 4, **changes: Any
) -> CellSummary:
    values: dict[str, Any] = {
        "backend": "reference",
        "target": "demo",
        "workload": "chat",
        "method": "ngram",
        "as_deployed": False,
        "gamma": gamma,
        "drafter": None,
        "batch_size": batch_size,
        "temperature": 0.0,
        "status": "ok",
        "speedup": speedup,
        "equivalence": "EXACT",
    }
    if speedup is not None and spread is not None:
        values |= {"speedup_ci_low": speedup - spread, "speedup_ci_high": speedup + spread}
    return CellSummary(**{**values, **changes})


def test_a_gain_at_every_batch_size_is_enabled() -> None:
    assert decide([cell(1, 1.5), cell(4, 1.2)]) == Decision("ENABLE", "ngram", 4, 4)


def test_a_loss_at_a_large_batch_limits_the_batch_size() -> None:
    assert decide([cell(1, 1.5), cell(4, 1.2), cell(8, 0.9)]) == Decision("ENABLE UP TO BATCH 4", "ngram", 4, 4)


def test_nothing_beyond_the_first_loss_is_enabled() -> None:
    assert decide([cell(1, 1.5), cell(4, 0.9), cell(8, 1.3)]).up_to_batch_size == 1


def test_an_unsure_gain_below_a_sure_one_does_not_stand_in_its_way() -> None:
    assert decide([cell(1, 1.05, 0.1), cell(4, 1.3)]) == Decision("ENABLE", "ngram", 4, 4)


def test_losses_everywhere_disable() -> None:
    assert decide([cell(1, 0.95), cell(4, 0.8)]) == Decision("DISABLE")


def test_a_gain_too_small_to_keep_is_none() -> None:
    assert outcome(cell(1, 1.0, 0.02)) == "no gain"
    assert decide([cell(1, 1.005, 0.01)]) == Decision("DISABLE")


def test_a_loss_that_is_not_resolved_is_unsure_and_still_bars_larger_batches() -> None:
    assert outcome(cell(1, 0.99, 0.1)) == "unsure"
    assert decide([cell(1, 0.99, 0.1)]) == Decision("NOT ENOUGH EVIDENCE")
    assert decide([cell(1, 0.99, 0.1), cell(4, 1.5)]) == Decision("NOT ENOUGH EVIDENCE")


def test_an_interval_wholly_below_what_is_worthwhile_is_no_gain_however_sure() -> None:
    assert outcome(cell(1, 1.015, 0.01)) == "no gain"
    assert outcome(cell(1, 1.03, 0.01)) == "gain"


def test_a_gain_that_degenerate_requests_carry_is_unsure() -> None:
    carried = cell(1, 1.3, speedup_without_degenerate=0.97)
    assert outcome(carried) == "unsure"
    assert decide([carried]) == Decision("NOT ENOUGH EVIDENCE")
    assert outcome(cell(1, 1.3, speedup_without_degenerate=1.2)) == "gain"


def test_a_wide_interval_is_not_enough_evidence() -> None:
    assert decide([cell(1, 1.2, 0.5)]) == Decision("NOT ENOUGH EVIDENCE")
    assert decide([cell(1, 1.2, None)]) == Decision("NOT ENOUGH EVIDENCE")
    assert decide([cell(1, None)]) == Decision("NOT ENOUGH EVIDENCE")


def test_no_speculation_arm_is_not_enough_evidence() -> None:
    assert decide([]) == Decision("NOT ENOUGH EVIDENCE")
    assert decide([cell(1, 1.0, method="none", gamma=0)]) == Decision("NOT ENOUGH EVIDENCE")


def test_changed_outputs_are_no_gain_whatever_the_speed() -> None:
    shown = cell(1, 2.0, equivalence="DIVERGENT", divergent_requests=2, unprobed_requests=1)
    assert decide([shown]) == Decision("DISABLE")
    assert decide([cell(1, 2.0, equivalence="NEAR_TIE")]).recommendation == "ENABLE"
    assert decide([cell(1, 2.0, equivalence="NOT_CHECKED")]).recommendation == "ENABLE"


def test_differences_that_nobody_could_probe_are_unsure_and_nothing_is_enabled_over_them() -> None:
    unprobed = cell(1, 2.0, equivalence="DIVERGENT", divergent_requests=2, unprobed_requests=2)
    assert outcome(unprobed) == "unsure"
    assert decide([unprobed, cell(4, 2.0)]) == Decision("NOT ENOUGH EVIDENCE")


@pytest.mark.parametrize("code", sorted(VOIDING))
def test_a_void_cell_is_no_evidence(code: str) -> None:
    assert decide([cell(1, 2.0, marks=(Mark(code, ""),))]) == Decision("NOT ENOUGH EVIDENCE")


def test_a_caveat_does_not_void_a_cell() -> None:
    assert decide([cell(1, 2.0, marks=(Mark("failed_requests", ""),))]).recommendation == "ENABLE"


def test_the_arm_with_the_larger_gain_over_all_batch_sizes_wins() -> None:
    fast_alone = [cell(1, 2.0, gamma=8), cell(4, 0.7, gamma=8)]
    steady = [cell(1, 1.6), cell(4, 1.4)]
    assert decide([*fast_alone, *steady]) == Decision("ENABLE", "ngram", 4, 4)


def test_all_workloads_must_gain_to_enable_for_their_mix() -> None:
    code, chat = cell(1, 1.6, workload="code"), cell(1, 0.9)
    assert decide([code, chat]) == Decision("DISABLE")
    assert decide([code]).recommendation == "ENABLE"
