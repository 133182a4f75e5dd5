"""A folder of runs: each is analysed once, anew when anything has changed; what is wrong with one stops no other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import known_run
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_folder import add_run, answer, measurements

from specbench.analysis.summary import summarize
from specbench.errors import SpecbenchError
from specbench.history import stamp
from specbench.history.folder import opened
from specbench.history.query import ask
from specbench.history.summary_file import keep
from specbench.store.run import RunStore


def summaries(run: Path) -> list[Path]:
    return sorted(run.glob("summary-*.parquet"))


def notes_of_opening(folder: Path) -> list[str]:
    notes: list[str] = []
    with opened(folder, notes.append):
        return notes


def test_a_run_is_analysed_once(tmp_path: Path) -> None:
    add_run(tmp_path / "a")
    assert len(notes_of_opening(tmp_path)) == 1
    (summary,) = summaries(tmp_path / "a")
    written = summary.stat().st_mtime_ns
    assert notes_of_opening(tmp_path) == []
    assert summaries(tmp_path / "a") == [summary]
    assert summary.stat().st_mtime_ns == written


def test_a_sweep_that_ends_leaves_the_summary_that_a_folder_would_make(tmp_path: Path) -> None:
    store = add_run(tmp_path / "a")
    taken = store.measurements()
    keep(store, summarize(store, taken), len(taken))
    (kept,) = summaries(tmp_path / "a")
    content = kept.read_bytes()
    assert notes_of_opening(tmp_path) == []
    kept.unlink()
    assert notes_of_opening(tmp_path) != []
    assert kept.read_bytes() == content


def measure_more(run: Path) -> None:
    RunStore.open(run).write(known_run.measurement(known_run.NGRAM, 1, replicate=2, accepted=3))


def ask_margins(run: Path) -> None:
    RunStore.open(run).write_json("equivalence.json", {})


def change_price(run: Path) -> None:
    store = RunStore.open(run)
    store.write_json("manifest.json", {**store.manifest, "config": {**store.manifest["config"], "gpu_price": 9.0}})


def read_settings_back(run: Path) -> None:
    (run / "launches" / "none-r0.json").write_text(json.dumps({"engine": "vllm", "version": "1", "raw": {}}))


@pytest.mark.parametrize("change", [measure_more, ask_margins, change_price, read_settings_back])
def test_a_run_that_changed_is_analysed_anew(tmp_path: Path, change: Callable[[Path], None]) -> None:
    add_run(tmp_path / "a")
    notes_of_opening(tmp_path)
    (before,) = summaries(tmp_path / "a")
    change(tmp_path / "a")
    assert notes_of_opening(tmp_path) != []
    (after,) = summaries(tmp_path / "a")
    assert after != before


def test_figures_follow_a_resumed_run(tmp_path: Path) -> None:
    add_run(tmp_path / "a")
    lengths = "SELECT DISTINCT mean_acceptance_length FROM cells WHERE method = 'ngram' AND batch_size = 1"
    (before,) = answer(tmp_path, lengths).rows
    measure_more(tmp_path / "a")
    (after,) = answer(tmp_path, lengths).rows
    assert before == (pytest.approx(2),)
    assert after > before


def test_other_code_analyses_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_run(tmp_path / "a")
    notes_of_opening(tmp_path)
    monkeypatch.setattr(stamp, "_code", lambda: b"another version")
    assert notes_of_opening(tmp_path) != []
    assert len(summaries(tmp_path / "a")) == 1


def test_the_stamp_covers_all_code_that_analysis_runs() -> None:
    code = (
        "import sys, specbench.analysis.summary, specbench.store.run\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('specbench.') and m.__file__))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    package = Path(stamp.__file__).parents[1]
    covered = [package / name for name in stamp.SUMMARIZING]
    modules = {Path(name) for name in loaded} - {package / "errors.py"}
    uncovered = {m for m in modules if m.name != "__init__.py" and not any(m.is_relative_to(c) for c in covered)}
    assert uncovered == set()


def test_runs_are_found_in_folders_below(tmp_path: Path) -> None:
    for place in ("a", "gate/baseline", "gate/candidate", "2030/01/b"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        add_run(tmp_path / place)
    with opened(tmp_path, print) as folder:
        assert [run.name for run in folder.runs] == ["2030/01/b", "a", "gate/baseline", "gate/candidate"]
    with opened(tmp_path / "a", print) as folder:
        assert [run.name for run in folder.runs] == ["."]


def test_a_folder_that_cannot_be_written_to_answers_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_run(tmp_path / "a")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the tests may run as root, whom no mode stops
    assert len(answer(tmp_path, "FROM cells").rows) == 4
    assert summaries(tmp_path / "a") == []


@pytest.mark.parametrize("content", ["nothing", "a report of something else"])
def test_a_folder_without_a_run_is_refused(tmp_path: Path, content: str) -> None:
    if content == "a report of something else":
        (tmp_path / "head").mkdir()
        (tmp_path / "head" / "report.json").write_text('{"acceptance": 0.5}')
    with (
        pytest.raises(SpecbenchError, match="holds no run of specbench sweep that can be read"),
        opened(tmp_path, print),
    ):
        pass
    with pytest.raises(SpecbenchError, match="is not a directory"), opened(tmp_path / "none", print):
        pass


def cut_a_table(run: Path) -> None:
    path = run / "measurements.parquet"
    path.write_bytes(path.read_bytes()[:-20])


def garble_the_manifest(run: Path) -> None:
    (run / "manifest.json").write_text("{")


def lose_the_manifest(run: Path) -> None:
    (run / "manifest.json").unlink()


def write_a_manifest_of_something_else(run: Path) -> None:
    (run / "manifest.json").write_text('{"name": "a web page"}')


def write_an_older_layout(run: Path) -> None:
    store = RunStore.open(run)
    store.write_json("manifest.json", {**store.manifest, "hardware": "2 cores"})


HARMS = [
    cut_a_table,
    garble_the_manifest,
    lose_the_manifest,
    write_a_manifest_of_something_else,
    write_an_older_layout,
]


@pytest.mark.parametrize("harm", HARMS)
def test_a_run_that_cannot_be_read_is_named_and_the_others_answer(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    add_run(tmp_path / "good")
    add_run(tmp_path / "bad")
    harm(tmp_path / "bad")
    with opened(tmp_path, lambda text: None) as folder:
        assert [run.name for run in folder.runs] == ["good"]
        (problem,) = folder.problems
    assert str(tmp_path / "bad") in problem
    assert "\n" not in problem
    assert notes_of_opening(tmp_path) == []  # what cannot be read is not tried again while nothing changes
    with opened(tmp_path, print) as folder:
        assert folder.problems == (problem,)
    assert {row[0] for row in answer(tmp_path, "SELECT run FROM cells").rows} == {"good"}


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda path: path.write_bytes(b"PAR1"), "damaged, it cannot be read as Parquet"),
        (lambda path: path.unlink(), "changed while it was read .* Ask again"),
    ],
    ids=["damaged", "gone"],
)
@pytest.mark.parametrize("view", ["cells", "requests", "measurements"])
def test_a_file_that_breaks_while_the_folder_is_open_is_one_sentence(
    tmp_path: Path, harm: Callable[[Path], None], says: str, view: str
) -> None:
    """A sweep that compacts its run beside us removes files that we have just seen."""
    add_run(tmp_path / "a", taken=[known_run.measurement()])
    with opened(tmp_path, lambda text: None) as folder:
        harm(folder.runs[0].summary if view == "cells" else tmp_path / "a" / f"{view}.parquet")
        with pytest.raises(SpecbenchError, match=says):
            ask(folder, f"SELECT run, count(*) FROM {view} GROUP BY run")


def test_a_run_that_was_mended_is_back(tmp_path: Path) -> None:
    add_run(tmp_path / "a")
    manifest = (tmp_path / "a" / "manifest.json").read_text()
    garble_the_manifest(tmp_path / "a")
    with pytest.raises(SpecbenchError):
        notes_of_opening(tmp_path)
    (tmp_path / "a" / "manifest.json").write_text(manifest)
    assert len(answer(tmp_path, "FROM cells").rows) == 4
    assert not list((tmp_path / "a").glob("summary-*.error"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its tables, and a measurement that is not in them."""
    path = tmp_path_factory.mktemp("whole") / "run"
    add_run(path, taken=measurements(batch_sizes=(1,)))
    measure_more(path)
    return path


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_however_a_file_is_cut_the_run_is_read_or_named(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    shutil.copytree(whole, folder / "cut")
    files = sorted(p for p in (folder / "cut").rglob("*") if p.is_file() and not p.name.startswith("summary-"))
    path = data.draw(st.sampled_from(files))
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    add_run(folder / "good", taken=[known_run.measurement(requests=2)], compact=False)
    with opened(folder, lambda text: None) as runs:
        names = [run.name for run in runs.runs]
        assert names == ["cut", "good"] or (names == ["good"] and "cut" in runs.problems[0])
        assert {row[0] for row in ask(runs, "SELECT run FROM measurements").rows} == set(names)


def test_what_is_left_of_a_run_is_its_report(tmp_path: Path) -> None:
    store = add_run(tmp_path / "run")
    report = summarize(store).to_json()
    for cell in report["cells"]:
        del cell["again"], cell["latency_speedup"]  # as an older version wrote it
    folder = tmp_path / "reports"
    (folder / "old").mkdir(parents=True)
    (folder / "old" / "report.json").write_text(json.dumps(report))
    (row,) = answer(folder, "SELECT run, kept, machine, recommendation, measured FROM runs").rows
    assert row == ("old", "report", report["machine"], report["verdict"]["recommendation"], None)
    speedups = answer(folder, "SELECT method, batch_size, speedup, again FROM cells ORDER BY ALL").rows
    assert speedups == tuple(sorted((c["method"], c["batch_size"], c["speedup"], None) for c in report["cells"]))
    assert answer(folder, "FROM requests").rows == answer(folder, "FROM measurements").rows == ()
