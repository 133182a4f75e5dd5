"""Marks appear exactly where a figure cannot stand alone."""

from __future__ import annotations

import pytest

from specbench.analysis import marks


@pytest.mark.parametrize(
    ("mark", "code"),
    [
        (marks.speedup_above_acceptance(2.5, 2.2), "speedup_above_acceptance"),
        (marks.acceptance_above_gamma(3.2, 2), "acceptance_above_gamma"),
        (marks.counters_differ(0.02), "counters_differ"),
        (marks.client_lag(0.006, 0.050, "none"), "client_lag"),
        (marks.client_lag(0.006, None, "none"), "client_lag"),
        (marks.token_identity(1), "token_identity"),
        (marks.failed_requests({"ngram γ4": (0, 40), "none": (2, 40)}), "failed_requests"),
        (marks.failed_requests({"ngram γ4": (0, 40), "none": (3, 40)}), "many_failed_requests"),
        (marks.degenerate_gain(1.3, 0.9), "degenerate_gain"),
        (marks.failed_measurements(1, 2), "failed_measurements"),
        (marks.no_steady_window(1, 2), "no_steady_window"),
        (marks.no_baseline(True), "no_baseline"),
        (marks.all_degenerate(8, 8), "all_degenerate"),
        (marks.preempted(2), "preempted"),
        (marks.prefix_cache_hits(12.0), "prefix_cache_hits"),
        (marks.settings_differ(["gamma is 3, asked was 4"]), "settings_differ"),
    ],
)
def test_what_must_be_said_is_said(mark: marks.Mark | None, code: str) -> None:
    assert mark is not None
    assert mark.code == code
    assert mark.text.endswith(".")


@pytest.mark.parametrize(
    "mark",
    [
        marks.speedup_above_acceptance(2.2, 2.2),
        marks.speedup_above_acceptance(2.2, None),
        marks.speedup_above_acceptance(None, 2.2),
        marks.acceptance_above_gamma(3.0, 2),
        marks.counters_differ(0.009),
        marks.counters_differ(None),
        marks.client_lag(0.006, 0.200, "none"),  # above 5 ms, but not above 5 % of TPOT
        marks.client_lag(0.004, 0.010, "none"),  # above 5 % of TPOT, but not above 5 ms
        marks.client_lag(None, 0.010, "none"),
        marks.token_identity(0),
        marks.failed_requests({"ngram γ4": (0, 10), "none": (0, 0)}),
        marks.degenerate_gain(1.3, 1.2),
        marks.degenerate_gain(0.9, 0.8),
        marks.degenerate_gain(1.3, None),
        marks.failed_measurements(0, 2),
        marks.no_steady_window(0, 2),
        marks.no_baseline(False),
        marks.all_degenerate(7, 8),
        marks.all_degenerate(0, 0),
        marks.preempted(0),
        marks.preempted(None),
        marks.prefix_cache_hits(0.5),
        marks.prefix_cache_hits(None),
        marks.settings_differ([]),
    ],
)
def test_what_is_in_order_is_not_marked(mark: marks.Mark | None) -> None:
    assert mark is None
