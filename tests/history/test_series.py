"""A cell over many runs is called as its arm is in one."""

from __future__ import annotations

import pytest

from specbench.history.series import Series
from specbench.speculation import AGAIN, AS_DEPLOYED, BASELINE, Speculation


@pytest.mark.parametrize(
    "arm",
    [
        BASELINE,
        AS_DEPLOYED,
        AGAIN,
        Speculation("ngram", 4, synthetic="0.8"),
        Speculation.of("ngram", "schedule:1=4+5=0"),
        Speculation.of("suffix", "adaptive:threshold+max=5", typical=True),
        Speculation.of("eagle3", 5, "heads", tree="8x60"),
        Speculation.of("suffix", 4, cached_requests=32),
        Speculation.of("medusa", 2, "heads", tree="static:4x2", typical=True),
    ],
    ids=lambda arm: arm.name,
)
def test_a_series_is_called_as_its_arm(arm: Speculation) -> None:
    series = Series(
        machine=None, backend="reference", target="demo", workload="chat", temperature=0.0, batch_size=1,
        request_rate=None, method=arm.name, gamma=arm.gamma, schedule=arm.schedule, adaptive=arm.adaptive,
        drafter=arm.drafter, as_deployed=arm.as_deployed, again=arm.again, points=(),
    )  # fmt: skip
    assert series.label == arm.label
