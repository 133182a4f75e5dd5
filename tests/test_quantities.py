"""How configurations write numbers and times."""

from __future__ import annotations

import pytest

from specbench.quantities import seconds, share


@pytest.mark.parametrize(
    ("written", "value"), [("500ms", 0.5), ("30s", 30), ("10m", 600), ("1.5h", 5400), ("12", 12), (12, 12), (0.5, 0.5)]
)
def test_times_take_units(written: object, value: float) -> None:
    assert seconds(written) == pytest.approx(value)


@pytest.mark.parametrize(("written", "value"), [("3%", 0.03), ("2.5 %", 0.025), ("0.03", 0.03), (0.03, 0.03)])
def test_shares_are_percentages_or_fractions(written: object, value: float) -> None:
    assert share(written) == pytest.approx(value)


@pytest.mark.parametrize("written", ["3", "three", "", "-3%", True])
def test_a_share_that_could_be_meant_either_way_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="expected a"):
        share(written)


@pytest.mark.parametrize("written", ["10 parsecs", "", "-3s", "inf", True])
def test_what_is_no_time_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="expected a"):
        seconds(written)
