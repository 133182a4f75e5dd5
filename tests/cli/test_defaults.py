"""What a sweep does when nothing is said stands in its help, as the configuration has it."""

from __future__ import annotations

import re

import pytest

from specbench.cli.defaults import shown_default
from specbench.sweep.config import SweepConfig


def test_sweep_help_shows_the_configurations_defaults(specbench) -> None:  # type: ignore[no-untyped-def]
    shown = specbench("sweep", "--help", COLUMNS="500").stdout
    for name, value in (("gamma", "4"), ("batch-size", "1,4"), ("ready-timeout", "600s"), ("max-replicates", "20")):
        line = next(line for line in shown.splitlines() if re.match(rf"│ +--{name}\s", line))
        assert f"[default: {value}]" in line
    assert "default: None" not in shown
    assert "default: False" not in shown


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("workload", None),  # has none
        ("gpu_price", None),
        ("skip_bad_lines", None),  # off
        ("drafter", None),  # empty
        ("method", "ngram"),
        ("temperature", "0"),
        ("request_timeout", "600s"),
    ],
)
def test_a_default_is_shown_as_it_would_be_given(field: str, shown: str | None) -> None:
    assert shown_default(SweepConfig.model_fields[field]) == shown
