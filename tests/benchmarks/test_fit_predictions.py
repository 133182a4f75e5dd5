"""What the committed results say of the fit, and that the scripts still give results of that kind."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import fit_public_grid
import fit_recorded_runs
from held_out_cells import Result, chosen, judge

from specbench.planning.cells import arms
from specbench.planning.machine import UNKNOWN
from specbench.planning.parameters import Model
from specbench.planning.shape import ModelShape


def result(module: Any) -> Any:
    return json.loads(module.RESULT.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, int], dict[str, Any]]:
    return {(r["choice"], r["cells"]): r for r in result(fit_public_grid)["results"]}


class TestPublicGrid:
    @pytest.mark.parametrize(("cells", "at_most"), [(5, 4.5), (8, 3.3)])
    def test_a_few_well_chosen_cells_predict_the_others(self, rows, cells: int, at_most: float) -> None:  # type: ignore[no-untyped-def]
        assert rows["one by one, for what each tells", cells]["mape_percent"] <= at_most

    def test_random_cells_predict_worse_than_chosen_ones(self, rows) -> None:  # type: ignore[no-untyped-def]
        for cells in (4, 8, 12):
            random, best = (rows[how, cells] for how in ("at random", "one by one, for what each tells"))
            assert random["mape_percent"] > best["mape_percent"]

    def test_ninety_percent_intervals_hold_what_they_say_pooled_over_many_cells(self, rows) -> None:  # type: ignore[no-untyped-def]
        for cells in (4, 8, 12, 16):
            row = rows["at random", cells]
            assert row["held_out"] >= 200
            assert 85 <= row["coverage_percent"] <= 95

    def test_results_have_the_columns_that_the_script_writes(self, rows) -> None:  # type: ignore[no-untyped-def]
        assert all(list(row) == [f.name for f in fields(Result)] for row in rows.values())


class TestRecordedRuns:
    def test_a_quarter_predicts_the_rest_within_the_noise_and_its_half(self) -> None:
        for run in result(fit_recorded_runs)["runs"]:
            designed = next(r for r in run["results"] if r["choice"] == "one by one, for what each tells")
            assert designed["mape_percent"] <= max(6, 1.5 * run["noise_percent"])

    def test_the_script_still_fits_our_runs(self) -> None:
        grid, noise = fit_recorded_runs.read("example-grid")
        assert 0 < noise < 0.2
        model = Model(ModelShape.of(fit_recorded_runs.SMOLLM2_135M, 4, 4), UNKNOWN, arms(grid))
        found = judge("a few", model, grid, [chosen(model, grid, 7)])
        assert found.held_out == len(grid) - 7
        assert found.mape_percent < 20
