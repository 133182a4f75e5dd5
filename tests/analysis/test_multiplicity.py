"""Holm's adjustment against its definition and its promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.multiplicity import holm

P_VALUES = st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=12)


def test_a_worked_example() -> None:
    """.01·4, .02·3, max(.06, .03·2), max(.06, .2·1)."""
    adjusted = holm({"a": 0.03, "b": 0.01, "c": 0.02, "d": 0.2})
    assert adjusted == {
        "a": pytest.approx(0.06), "b": pytest.approx(0.04), "c": pytest.approx(0.06), "d": pytest.approx(0.2),
    }  # fmt: skip


@given(P_VALUES)
def test_it_keeps_the_order_and_lies_between_the_plain_value_and_bonferroni(p_values: dict[str, float]) -> None:
    adjusted = holm(p_values)
    assert list(adjusted) == list(p_values)
    for name, p in p_values.items():
        assert p <= adjusted[name] <= min(1, len(p_values) * p)
    ranked = sorted(p_values, key=lambda name: p_values[name])
    assert [adjusted[name] for name in ranked] == sorted(adjusted.values())


@given(P_VALUES, st.floats(0, 1))
def test_one_more_test_never_makes_another_more_significant(p_values: dict[str, float], more: float) -> None:
    alone, together = holm(p_values), holm({**p_values, "one more": more})
    assert all(together[name] >= alone[name] for name in p_values)


def test_twenty_cells_without_a_change_raise_a_false_alarm_as_rarely_as_one() -> None:
    drawn = np.random.default_rng(2).uniform(size=(4_000, 20))
    alarms = sum(min(holm(dict(zip(map(str, range(20)), p, strict=True))).values()) < 0.05 for p in drawn.tolist())
    assert alarms / 4_000 == pytest.approx(0.05, abs=0.012)
