"""What a sweep predicted stands beside what it measured, marked, and nothing rests on it."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
from known_run import NGRAM, measurement, row, store

from specbench.analysis.early_stop import in_order
from specbench.analysis.summary import RunSummary, summarize
from specbench.comparison.from_run import snapshot
from specbench.history.stamp import summary_path
from specbench.history.summary_file import keep
from specbench.report.csv_file import render_csv
from specbench.report.html import render_html
from specbench.report.markdown import render_markdown
from specbench.report.terminal import render_summary
from specbench.store.run import EARLY_STOP, RunStore

MEASURED = [measurement(), measurement(NGRAM, accepted=3, steps=(0.014,))]
SKIPPED: dict[str, Any] = {
    "target": "demo", "workload": "chat", "drafter": None, "batch_size": 4, "temperature": 0.0,
}  # fmt: skip
RECORD = {
    "why": "settled",
    "text": "Settled after 2 of 4 cells.",
    "confidence": 0.95,
    "measured_cells": 2,
    "grid_cells": 4,
    "best": [
        {"workload": "chat", "batch_size": 4, "method": "ngram", "gamma": 4, "probability": 0.99, "settled": True},
    ],
    "by_method": {},
    "predicted": [
        {**SKIPPED, "method": "none", "gamma": 0, "output_tokens_per_s": 300.0, "speedup": 1.0,
         "speedup_ci_low": 1.0, "speedup_ci_high": 1.0},
        {**SKIPPED, "method": "ngram", "gamma": 4, "output_tokens_per_s": 480.0, "speedup": 1.6,
         "speedup_ci_low": 1.4, "speedup_ci_high": 1.8},
    ],
}  # fmt: skip


def stopped(path: Path) -> RunStore:
    run = store(path, MEASURED)
    run.write_json(EARLY_STOP, RECORD)
    return run


def text_of(summary: RunSummary) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=100, highlight=False)
    console.print(render_summary(summary))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_predictions_are_rows_of_their_own_and_no_cells(tmp_path: Path) -> None:
    summary, whole = summarize(stopped(tmp_path / "a")), summarize(store(tmp_path / "b", MEASURED))
    assert summary.cells == whole.cells
    assert summary.break_even == whole.break_even
    assert [(c.method, c.batch_size, c.predicted) for c in summary.rows] == [
        *(("none", 1, False), ("none", 4, True)),
        *(("ngram", 1, False), ("ngram", 4, True)),
    ]
    assert not any(c.is_evidence for c in summary.rows if c.predicted)


def test_that_it_stopped_is_said_and_what_it_skipped_is_not_missing(tmp_path: Path) -> None:
    assert "2 planned measurements are missing" in summarize(store(tmp_path / "b", MEASURED)).text
    summary = summarize(stopped(tmp_path / "a"))
    assert summary.text.startswith("Settled after 2 of 4 cells. ")
    assert "missing" not in summary.text


def test_every_table_marks_them(tmp_path: Path) -> None:
    run = stopped(tmp_path)
    summary = summarize(run)
    record = summary.to_json()
    assert [c["predicted"] for c in record["cells"]] == [False, True, False, True]
    assert {c["status"] for c in record["cells"] if c["predicted"]} == {"predicted"}
    assert record["early_stop"]["best"] == RECORD["best"]
    rows = list(csv.DictReader(io.StringIO(render_csv(record))))
    assert [r["predicted"] for r in rows] == ["False", "True", "False", "True"]
    assert rows[3]["speedup_ci_basis"] == "predicted, 90 %"
    for shown in (text_of(summary), render_markdown(summary, [])):
        assert "~1.60 [1.40, 1.80]" in shown
        assert "~480.0" in shown
        assert "~: predicted" in shown
    page = render_html(summary, run.measurements())
    assert page.count('<tr class="predicted">') == 2
    assert "~: predicted" in page


def test_history_and_comparison_leave_them_out(tmp_path: Path) -> None:
    run = stopped(tmp_path)
    summary = summarize(run)
    keep(run, summary, len(MEASURED))
    kept = duckdb.sql(
        f"SELECT method, batch_size, predicted FROM '{summary_path(run.path)}' ORDER BY method"
    ).fetchall()
    assert kept == [("ngram", 1, False), ("none", 1, False)]
    assert {key.batch_size for key in snapshot(run).by_key()} == {1}
    assert snapshot(run).missing == 2  # so that a gate against a whole run does not pass on what is there


def test_what_was_measured_since_is_no_prediction_any_more(tmp_path: Path) -> None:
    run = stopped(tmp_path)
    run.write(measurement(batch_size=4, requests=16))
    assert [(c.method, c.batch_size) for c in summarize(run).rows if c.predicted] == [("ngram", 4)]
    run.write(measurement(NGRAM, 4, accepted=3, requests=16))
    summary = summarize(run)
    assert summary.early_stop is None
    assert summary.to_json()["early_stop"] is None
    assert summary.rows == summary.cells


def test_methods_keep_their_order_among_predictions(tmp_path: Path) -> None:
    summary = summarize(stopped(tmp_path))
    ngram = row(summary, "ngram")
    later = replace(ngram, method="suffix", predicted=True)
    assert [c.method for c in in_order(summary.cells, [later])] == ["none", "ngram", "suffix"]


def test_nothing_is_enabled_beyond_what_was_measured(tmp_path: Path) -> None:
    summary, whole = summarize(stopped(tmp_path / "a")), summarize(store(tmp_path / "b", MEASURED))
    assert (whole.decision.recommendation, whole.decision.method) == ("ENABLE", "ngram")
    assert summary.decision.recommendation == "ENABLE UP TO BATCH 1"
    assert summary.by_workload["chat"] == summary.decision
