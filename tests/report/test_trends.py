"""The plot of trends draws the figures that the table shows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.image import imread

from specbench.errors import SpecbenchError
from specbench.history.series import Figure, Point, Series
from specbench.report.trends import draw_trends, write_trends


def point(day: int, value: float | None, *marks: str) -> Point:
    moment = datetime(2030, 1, 1) + timedelta(days=day)
    figures = {} if value is None else {"speedup": Figure(value, value - 0.1, value + 0.1)}
    status = "failed" if value is None else "ok"
    return Point(f"run-{day}", moment, "0.1.0", "vllm 0.32.0", False, status, marks, figures)


def series(*points: Point, **changes: Any) -> Series:
    values: dict[str, Any] = {
        "machine": "1 × H200", "backend": "vllm", "target": "demo", "workload": "chat", "temperature": 0.0,
        "batch_size": 1, "request_rate": None, "method": "ngram", "gamma": 4, "schedule": None, "adaptive": None,
        "drafter": None,
        "as_deployed": False, "again": False, "points": points,
    }  # fmt: skip
    return Series(**{**values, **changes})


def lines(axes: Axes) -> dict[str, list[tuple[int, float]]]:
    """Points by label, each at the run that it stands nearest to."""
    return {
        str(line.get_label()): [(round(float(x)), float(y)) for x, y in line.get_xydata()]
        for line in axes.get_lines()
        if not str(line.get_label()).startswith("_")
    }


def panels(figure: Any) -> Iterator[Axes]:
    return (axes for axes in figure.axes if axes.axison)


def test_points_stand_at_their_runs_and_void_ones_are_hollow_and_apart() -> None:
    shown = [
        series(point(0, 1.2), point(1, 1.9, "client_lag"), point(2, None), point(3, 1.4)),
        series(point(1, 0.9), method="eagle3", drafter="head"),
    ]
    (axes,) = panels(draw_trends(shown, ["speedup"]))
    assert lines(axes) == {"ngram-g4": [(0, 1.2), (3, 1.4)], "eagle3-g4": [(1, 0.9)]}
    hollow = [line for line in axes.get_lines() if line.get_markerfacecolor() == "none" and len(line.get_xdata())]
    assert [round(float(x)) for line in hollow for x in line.get_xdata()] == [1]
    assert axes.get_ylabel() == "speedup"


def test_a_panel_per_load_and_place() -> None:
    shown = [
        series(point(0, 1.5)),
        series(point(0, 1.2), batch_size=8),
        series(point(0, 1.1), machine="another"),
    ]
    titles = [axes.get_title() for axes in panels(draw_trends(shown, ["speedup"]))]
    assert titles == [
        "batch 1, chat: vllm, demo, 1 × H200",
        "batch 8, chat: vllm, demo, 1 × H200",
        "batch 1, chat: vllm, demo, another",
    ]


def test_the_file_is_a_picture(tmp_path: Path) -> None:
    write_trends(tmp_path / "trend.png", [series(point(0, 1.5), point(1, 1.6))], ["speedup"])
    picture = imread(tmp_path / "trend.png")
    assert picture.ndim == 3
    assert picture.std() > 0.01
    assert [path.name for path in tmp_path.iterdir()] == ["trend.png"]
    write_trends(tmp_path / "trend.svg", [series(point(0, 1.5), point(1, 1.6))], ["speedup"])
    assert (tmp_path / "trend.svg").read_bytes().startswith(b"<?xml")
    with pytest.raises(SpecbenchError, match=r"ends in \.png, \.svg or \.pdf"):
        write_trends(tmp_path / "trend.gif", [series(point(0, 1.5))], ["speedup"])


def test_more_panels_than_can_be_read_are_refused() -> None:
    shown = [series(point(0, 1.5), batch_size=size) for size in range(1, 30)]
    with pytest.raises(SpecbenchError, match="29 panels"):
        draw_trends(shown, ["speedup"])
