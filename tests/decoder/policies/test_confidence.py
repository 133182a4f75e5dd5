"""The confidence rule asks for the same gamma whatever comes: where a draft ends is the drafter's to say."""

from __future__ import annotations

from specbench.decoder.policies.base import Step
from specbench.decoder.policies.confidence import ConfidenceRule, ConfidenceStop


def test_gamma_stays_whatever_is_kept() -> None:
    policy = ConfidenceStop(ConfidenceRule(max=5, below=0.3))
    assert policy.stop_below == 0.3
    for accepted in (0, 5):
        assert policy.choose("ab") == [5, 5]
        policy.observe(Step("ab", [5, 5], [5, 5], [accepted, accepted], 1.0))
