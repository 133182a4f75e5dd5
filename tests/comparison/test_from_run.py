"""What a gate keeps of a run: a report's figures, replicate by replicate, without what is no evidence."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from known_gate import CALM, key, run, snapshot, stored
from known_run import NGRAM, failed, measurement

from specbench.analysis.summary import summarize
from specbench.comparison import from_run
from specbench.comparison.metrics import COST, METRICS
from specbench.comparison.snapshot import Snapshot
from specbench.errors import SpecbenchError
from specbench.speculation import AGAIN, BASELINE
from specbench.store.run import RunStore


def test_figures_are_those_of_the_arithmetic(tmp_path: Path) -> None:
    cell = from_run.snapshot(run(tmp_path / "run")).by_key()[key(4)]
    assert cell.figures["speedup"] == pytest.approx([2 / 1.2 / math.exp(x) for x in CALM])
    assert cell.figures["tpot_ms_p50"] == pytest.approx([6 * math.exp(x) for x in CALM])
    assert cell.figures["output_tokens_per_s"] == pytest.approx([4 * 41 / 0.24 / math.exp(x) for x in CALM], rel=0.03)
    assert cell.figures["mean_acceptance_length"] == (2.0,) * 5


def test_of_one_replicate_every_figure_is_the_reports(tmp_path: Path) -> None:
    store = run(tmp_path / "run", noise=(0.02,))
    kept = from_run.snapshot(store).by_key()
    for cell in summarize(store).cells:
        figures = kept[key(cell.batch_size)._replace(method=cell.method, gamma=cell.gamma)].figures
        for name in METRICS.keys() - {COST}:
            value = getattr(cell, name)
            assert figures.get(name, (None,)) == ((value if value else None),)


def test_a_replicate_whose_client_lagged_has_no_times_but_its_acceptance_stands(tmp_path: Path) -> None:
    taken = run(tmp_path / "run", batch_sizes=(1,)).measurements()
    lagging = [replace(m, client_lag_p99=0.2) if m.replicate == 2 and m.cell.speculation == NGRAM else m for m in taken]
    cell = from_run.snapshot(stored(tmp_path / "lag", lagging)).by_key()[key()]
    for name in ("speedup", "tpot_ms_p50", "output_tokens_per_s"):
        assert [value is None for value in cell.figures[name]] == [False, False, True, False, False]
    assert cell.figures["mean_acceptance_length"] == (2.0,) * 5
    (sentence,) = cell.left_out
    assert sentence.startswith("1 of 5 replicates not counted")
    assert "lagged by 200.0 ms" in sentence


def test_a_failure_is_counted_by_replicate_with_its_reason(tmp_path: Path) -> None:
    ok = [measurement(s, replicate=r, accepted=1) for r in range(3) for s in (BASELINE, NGRAM)]
    dead = [m if m.cell.speculation == BASELINE or m.replicate else failed(NGRAM) for m in ok]
    cell = from_run.snapshot(stored(tmp_path / "run", dead)).by_key()[key()]
    assert cell.failures == 1
    assert cell.error == "the server ended with exit code 137."
    assert cell.figures["mean_acceptance_length"][0] is None


def test_the_baselines_second_measuring_is_nobodys_figure(tmp_path: Path) -> None:
    taken = [measurement(BASELINE, steps=(0.01,)), measurement(AGAIN, steps=(0.02,))]
    (cell,) = from_run.snapshot(stored(tmp_path / "run", taken)).cells
    assert cell.figures["tpot_ms_p50"] == pytest.approx([10.0])


def test_a_file_gives_back_what_was_saved_one_cell_a_line(tmp_path: Path) -> None:
    kept, path = from_run.snapshot(run(tmp_path / "run")), tmp_path / "baseline.json"
    kept.write(path)
    again = from_run.load_snapshot(path)
    assert again.model_copy(update={"cells": kept.cells}) == kept
    for cell, other in zip(again.cells, kept.cells, strict=True):
        assert cell.model_copy(update={"figures": other.figures}) == other
        for name, values in other.figures.items():
            assert cell.figures[name] == pytest.approx(values, rel=1e-6)
    lines = [line.strip(" ,") for line in path.read_text().splitlines()]
    assert sum(line.startswith('{"workload"') for line in lines) == len(kept.cells)
    assert len(path.read_bytes()) < 20_000


@pytest.mark.parametrize("content", ["{}", "not json", '{"specbench_baseline": 2}', "[]"])
def test_a_file_that_is_no_baseline_is_refused_in_a_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(content)
    with pytest.raises(SpecbenchError, match=r"is neither a run nor a baseline .*specbench baseline save"):
        Snapshot.read(path)


def test_a_run_without_measurements_and_a_path_without_a_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match="does not exist"):
        from_run.load_snapshot(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "manifest.json").write_text(json.dumps({"config": {}}))
    with pytest.raises(SpecbenchError, match="no measurement yet"):
        from_run.snapshot(RunStore.open(tmp_path / "empty"))


def test_an_unfinished_run_says_how_much_is_missing(tmp_path: Path) -> None:
    store = run(tmp_path / "run", batch_sizes=(1,), plan={"measurements": 14})
    assert from_run.snapshot(store).missing == 4
    assert snapshot({"speedup": [[1.0]]}).missing == 0
