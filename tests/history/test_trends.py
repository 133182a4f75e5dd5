"""Trends: like is set beside like, newest last, with the intervals that the runs' reports give."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import known_run
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_folder import add_run, measurements

from specbench.analysis.summary import summarize
from specbench.errors import SpecbenchError
from specbench.history.folder import opened
from specbench.history.series import Figure, Series
from specbench.history.trends import Selection, Trends, trends
from specbench.speculation import BASELINE, Speculation
from specbench.store.measurement import Cell
from specbench.store.run import RunStore

ONE = {"batch_sizes": (1,)}


def found(folder: Path, metrics: Sequence[str] = (), **selection: Any) -> Trends:
    with opened(folder, lambda text: None) as runs:
        return trends(runs, Selection(**selection), metrics)


def only(folder: Path, metrics: Sequence[str] = (), **selection: Any) -> Series:
    (series,) = found(folder, metrics, **selection).series
    return series


def test_figures_are_those_of_the_runs_reports(tmp_path: Path) -> None:
    stores = [add_run(tmp_path / f"r{day}", day, measurements(0.01 * day)) for day in (2, 1)]
    for metric in ("speedup", "mean_acceptance_length", "ttft_ms_p95"):
        series = only(tmp_path, [metric], method=("ngram",), batch_size=(4,))
        assert [p.run for p in series.points] == ["r1", "r2"]
        for point, store in zip(series.points, reversed(stores), strict=True):
            cells = summarize(RunStore.open(store.path)).to_json()["cells"]
            (cell,) = (c for c in cells if (c["method"], c["batch_size"]) == ("ngram", 4))
            assert point.figures == {
                metric: Figure(cell[metric], cell.get(f"{metric}_ci_low"), cell.get(f"{metric}_ci_high"))
            }


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(days=st.lists(st.integers(1, 28), min_size=1, max_size=5), order=st.randoms(use_true_random=False))
def test_the_newest_stands_last_whatever_runs_are_called(
    tmp_path_factory: pytest.TempPathFactory, days: list[int], order: random.Random
) -> None:
    folder, names = tmp_path_factory.mktemp("runs"), list("abcde")
    order.shuffle(names)
    made = dict(zip(names, days, strict=False))
    for name, day in made.items():
        add_run(folder / name, day, measurements(**ONE), compact=False)
    points = only(folder).points
    assert [p.run for p in points] == sorted(made, key=lambda name: (made[name], name))


def test_machines_engines_drafters_and_prompts_are_not_mixed(tmp_path: Path) -> None:
    def taken(backend: str = "reference", drafter: str = "small", workload: str = "chat") -> list[Any]:
        arms = (BASELINE, Speculation("draft_model", 2, drafter))
        return [
            known_run.measurement(arm, accepted=min(arm.gamma, 1), cell=Cell(backend, "demo", workload, arm, 1, 0.0))
            for arm in arms
        ]

    add_run(tmp_path / "a", 1, taken())
    add_run(tmp_path / "b", 2, taken(), hardware={"kind": "another machine"})
    add_run(tmp_path / "c", 3, taken("vllm"))
    add_run(tmp_path / "d", 4, taken(drafter="large"))
    add_run(tmp_path / "e", 5, taken(workload="code"))
    add_run(tmp_path / "f", 6, taken())
    runs = {tuple(p.run for p in s.points) for s in found(tmp_path).series}
    assert runs == {("a", "f"), ("b",), ("c",), ("d",), ("e",)}


def test_simulated_runs_stand_there_only_when_asked_for(tmp_path: Path) -> None:
    add_run(tmp_path / "real", 1, measurements(**ONE))
    add_run(tmp_path / "simulated", 2, measurements(**ONE), simulated={"scenario": "toy"})
    assert [p.run for p in only(tmp_path).points] == ["real"]
    assert found(tmp_path).simulated_runs == 1
    assert [p.run for p in only(tmp_path, simulated=True).points] == ["real", "simulated"]
    (tmp_path / "real" / "manifest.json").unlink()
    with pytest.raises(SpecbenchError, match="1 simulated runs were left out: add --simulated"):
        found(tmp_path)


def test_what_changed_since_the_run_before_is_named(tmp_path: Path) -> None:
    def versions(torch: str) -> dict[str, str]:
        return {"specbench": "0.1.0", "torch": torch}

    add_run(tmp_path / "a", 1, measurements(**ONE), versions=versions("2.0"))
    add_run(tmp_path / "b", 2, measurements(**ONE), versions=versions("2.1"), drafters={"eagle3": "12" * 32})
    add_run(
        tmp_path / "c", 3, measurements(**ONE), versions=versions("2.1"),
        workloads=[{"name": "chat", "sha256": "99" * 32}, {"name": "code", "sha256": "11" * 32}],
    )  # fmt: skip
    changed = [p.changed for p in only(tmp_path).points]
    # Another method's drafter, and a workload that the run before did not have, say nothing of this cell.
    assert changed == [(), ("version of torch: 2.0 → 2.1",), ("workload chat: cdcdcdcdcd… → 9999999999…",)]


def test_a_baseline_has_figures_of_its_own_but_no_speedup_over_itself(tmp_path: Path) -> None:
    add_run(tmp_path / "a", taken=measurements(**ONE))
    assert {s.label for s in found(tmp_path).series} == {"ngram-g4"}
    both = found(tmp_path, ["tpot_ms_p50", "speedup"])
    assert [(s.label, sorted(s.points[0].figures)) for s in both.series] == [
        ("none", ["tpot_ms_p50"]),
        ("ngram-g4", ["speedup", "tpot_ms_p50"]),
    ]


def test_a_failure_is_a_point(tmp_path: Path) -> None:
    add_run(tmp_path / "a", 1, measurements(**ONE))
    baseline = [m for m in measurements(**ONE) if m.cell.speculation.is_baseline]
    add_run(tmp_path / "b", 2, [*baseline, known_run.failed(known_run.NGRAM, 1)])
    good, bad = only(tmp_path).points
    assert (good.status, bool(good.figures)) == ("ok", True)
    assert (bad.status, bool(bad.figures)) == ("failed", False)


def test_a_figure_that_is_no_evidence_is_told_apart(tmp_path: Path) -> None:
    add_run(tmp_path / "a", taken=measurements(**ONE, client_lag_p99=1.0))
    (point,) = only(tmp_path).points
    assert "client_lag" in point.marks
    assert point.is_void


def test_an_incomplete_run_counts_and_is_named(tmp_path: Path) -> None:
    add_run(tmp_path / "a", taken=measurements(**ONE), compact=False)
    trend = found(tmp_path)
    assert trend.incomplete == (("a", 4, 8),)
    assert len(trend.series) == 1


@pytest.mark.parametrize(
    ("metrics", "selection", "says"),
    [
        (["speedupp"], {}, "--metric: speedupp is no figure of a cell. Did you mean speedup, run_speedup"),
        (["workload"], {}, "--metric: workload is no figure of a cell. Take one of"),
        (["batch_size"], {}, "is no figure of a cell"),
        ([], {"method": ("eagle3",)}, "no cell with --method eagle3 of the runs in .* There are: method ngram, none."),
        ([], {"gamma": (4,), "batch_size": (9,)}, "--gamma 4, --batch-size 9 .*: gamma 0, 4; batch size 1, 4."),
        (["goodput_percent"], {}, "no cell of the runs in .* has a goodput_percent."),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_way_out(
    tmp_path: Path, metrics: list[str], selection: dict[str, Any], says: str
) -> None:
    add_run(tmp_path / "a")
    with pytest.raises(SpecbenchError, match=says):
        found(tmp_path, metrics, **selection)
