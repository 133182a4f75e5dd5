"""What the committed results say of sweeps that stop early, and that the script still gives results of that kind."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import until_confident
from until_confident import Replay, Worlds


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return json.loads(until_confident.RESULT.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def test_a_quarter_of_a_grid_decides_as_the_whole_does(record: dict[str, Any]) -> None:
    """Of grids of which a quarter is more than the start design."""
    large = [r for r in record["replays"] if r["of"] > 20 and r["how"] == "budget of 25 %"]
    assert len(large) == 3
    for r in large:
        assert r["share_percent"] <= 25
        assert r["as_good"] == r["places"]


def test_where_cells_can_settle_it_a_quarter_is_enough_to_be_sure(record: dict[str, Any]) -> None:
    """The runs of vLLM on a CPU are too noisy for their whole grid to settle everything."""
    free = {r["grid"]: r for r in record["replays"] if r["how"] == "until sure" and not r["launch_cost"]}
    for grid in ("example-grid", "Qwen3-235B on SGLang"):
        assert free[grid]["share_percent"] <= 25
        assert (free[grid]["ended"], free[grid]["as_good"]) == ("settled", free[grid]["places"])


def test_what_is_called_sure_is_wrong_no_more_often_than_it_says(record: dict[str, Any]) -> None:
    for world in record["known_truth"]:
        assert world["sure"] >= 200
        assert world["wrong_percent"] <= 5


def test_results_have_the_columns_that_the_script_writes(record: dict[str, Any]) -> None:
    assert all(list(row) == [f.name for f in fields(Replay)] for row in record["replays"])
    assert all(list(row) == [f.name for f in fields(Worlds)] for row in record["known_truth"])


def test_the_script_still_replays_our_run() -> None:
    (one,) = [g for g in until_confident.grids(None) if g[0] == "example-grid"]
    found = until_confident.replay(*one, "until sure", 0.0, 1.0)
    assert found.ended == "settled"
    assert found.share_percent < 50
