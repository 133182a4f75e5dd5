"""What a second device would gain, from the times of one."""

from __future__ import annotations

import pytest

from specbench.analysis.prepared import prepared_figures
from specbench.backends.base import EngineCounters


def counted(ready: int, late: int, **seconds: float) -> EngineCounters:
    return EngineCounters(
        passes=100,
        drafting_passes=100,
        prepared_drafts=100,
        ready_drafts=ready,
        late_passes=late,
        phase_seconds=seconds,
    )


def test_a_draft_that_is_ready_costs_no_time() -> None:
    # 10 late passes of 0.1 s of drafting each; 0.2 s of verification; 0.15 s of preparing, which hides behind it.
    found = prepared_figures([counted(90, 10, draft=1.0, verify=18.0, accept=1.5, host=0.5, prepare=15.0)])
    assert found["ready_draft_rate"] == pytest.approx(0.9)
    assert found["second_device_gain"] == pytest.approx(0.3 / (0.9 * 0.2 + 0.1 * 0.3))


def test_preparing_that_takes_longer_than_verification_is_waited_for() -> None:
    found = prepared_figures([counted(50, 50, draft=5.0, verify=20.0, prepare=60.0)])
    assert found["second_device_gain"] == pytest.approx(0.3 / (0.5 * 0.6 + 0.5 * 0.3))


def test_steps_without_a_draft_gain_nothing() -> None:
    seconds = {"draft": 1.0, "verify": 20.0, "prepare": 5.0}
    counts = {"prepared_drafts": 50, "ready_drafts": 40, "late_passes": 10, "phase_seconds": seconds}
    found = prepared_figures([EngineCounters(passes=100, drafting_passes=50, **counts)])  # type: ignore[arg-type]
    assert found["second_device_gain"] == pytest.approx((100 * 0.2 + 50 * 0.1) / (50 * 0.2 + 40 * 0.2 + 10 * 0.3))


def test_other_methods_have_no_such_figures() -> None:
    assert prepared_figures([EngineCounters(passes=5, prepared_drafts=0), EngineCounters()]) == {}
