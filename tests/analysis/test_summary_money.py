"""Whole runs summed up: what is saved, and where nothing may be said to be."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_run import NGRAM, measurement, output_of, row, store

from specbench.analysis.summary import summarize
from specbench.speculation import BASELINE


def test_another_price_needs_no_new_measurement(tmp_path: Path) -> None:
    run = store(tmp_path, [measurement(), measurement(NGRAM, accepted=3)], gpu_price=None)
    assert row(summarize(run), "ngram").cost_per_million_output_tokens is None
    priced = summarize(run, pricing={"gpu_price": 3.0, "currency": "BRL"})
    assert row(priced, "ngram").cost_per_million_output_tokens == pytest.approx(3.0 / (205 * 3600) * 1e6)
    assert (row(priced, "ngram").currency, priced.manifest["config"]["gpu_price"]) == ("BRL", 3.0)
    assert summarize(run).manifest["config"]["gpu_price"] is None


def test_a_cell_that_is_no_evidence_saves_nothing_and_breaks_even_nowhere(tmp_path: Path) -> None:
    config = {"gpu_price": 2.0, "engineering_cost": 1000, "tokens_per_month": 1e12}
    runs = [
        measurement(batch_size=1), measurement(NGRAM, accepted=1, steps=(0.002,)),  # implausible
        measurement(batch_size=2), measurement(NGRAM, 2, accepted=3),
    ]  # fmt: skip
    summary = summarize(store(tmp_path, runs, **config))
    void, sound = (cell for cell in summary.cells if not cell.is_baseline)
    assert "speedup_above_acceptance" in {mark.code for mark in void.marks}
    assert (void.saving_percent, void.gpus_saved, void.payback_months) == (None, None, None)
    assert sound.gpus_saved is not None
    assert sound.gpus_saved > 0
    assert sound.saving_percent == pytest.approx((1 - 1 / (sound.speedup or 0)) * 100)
    (crossing,) = (b.crossing for b in summary.break_even)
    assert "above the largest measured batch size (2)" in crossing.text


def test_other_outputs_save_nothing_however_fast(tmp_path: Path) -> None:
    config = {"gpu_price": 2.0, "engineering_cost": 1000, "tokens_per_month": 1e12}
    changed = measurement(NGRAM, accepted=3, outputs={3: (*output_of("p003", 20), 7)})
    cell = row(summarize(store(tmp_path, [measurement(), changed], **config)), "ngram")
    assert (cell.equivalence, cell.is_evidence) == ("DIVERGENT", True)
    assert (cell.speedup_ci_low or 0) > 1
    assert (cell.saving_percent, cell.gpus_saved, cell.payback_months) == (None, None, None)


def test_gpus_are_saved_only_where_a_gain_is_shown(tmp_path: Path) -> None:
    config = {"gpu_price": 2.0, "engineering_cost": 1000, "tokens_per_month": 1e12}
    runs = [
        measurement(arm, accepted=accepted, steps=(step,), replicate=replicate)
        for replicate, faster in enumerate((0.004, 0.012))
        for arm, accepted, step in ((BASELINE, 0, 0.01), (NGRAM, 1, faster))
    ]
    cell = summarize(store(tmp_path, runs, **config)).cells[1]
    assert cell.speedup_ci_low is not None
    assert cell.speedup_ci_low < 1 < (cell.speedup or 0)
    assert (cell.gpus_saved, cell.payback_months) == (None, None)
