"""A comparison as table, Markdown and plot."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pytest
from known_gate import snapshot
from matplotlib.text import Text
from PIL import Image

from specbench.comparison import wording
from specbench.comparison.compare import Wanted, compare
from specbench.comparison.result import Comparison
from specbench.comparison.sides import Side
from specbench.comparison.snapshot import CellFigures
from specbench.errors import SpecbenchError
from specbench.report.comparison_markdown import render_markdown
from specbench.report.figure_file import WIDTH
from specbench.report.fitting import COMMENT_BYTES
from specbench.report.forest import draw_forest, write_forest


def side(letter: str, *, shift: float = 0.0, cells: int = 3, workload: str = "chat") -> Side:
    """A run of five launches; of every second cell the speedup is e^shift times 1.5."""
    source = random.Random(letter)
    made = tuple(
        CellFigures(
            workload=workload,
            method="ngram",
            gamma=4,
            batch_size=i + 1,
            figures={"speedup": tuple(1.5 * math.exp(shift * (i % 2) + source.gauss(0, 0.01)) for _ in range(5))},
        )
        for i in range(cells)
    )
    return Side(letter, Path(f"reports/{letter.lower()}"), snapshot({"speedup": [[1.0] * 5]}, cells=made))


def comparison(cells: int = 3, workload: str = "chat", others: str = "B") -> Comparison:
    reference = side("A", cells=cells, workload=workload)
    sides = [reference, *(side(x, shift=-0.2, cells=cells, workload=workload) for x in others)]
    return compare(sides, Wanted(metrics=("speedup",)))


def test_a_row_says_what_was_found_and_what_would_have_been() -> None:
    (_, rows), *_ = wording.tables(comparison(), comparison().against[0])
    assert rows[1][:2] == ("chat ngram-g4", "batch 2")
    assert re.fullmatch(r"-1\d\.\d% \[-\d\d\.\d%, -1\d\.\d%\]", rows[1][4])
    assert rows[1][5:] == ("<.001", "worse")
    assert re.fullmatch(r"none found, sees ±\d\.\d%", rows[0][6])
    assert wording.summary(comparison().against[0]) == (
        "B against A: of 3 figures 1 worse, 2 without a difference found."
    )


@pytest.mark.parametrize(("factor", "shown"), [(1.031, "±3.1%"), (1.5, "-33%/+50%"), (12.4, "×12")])
def test_how_large_a_change_would_have_been_seen_is_said_both_ways(factor: float, shown: str) -> None:
    assert wording.visible(factor) == shown


def test_bytes_are_shown_as_people_read_them() -> None:
    assert wording.value("memory_bytes_peak", 3 * 2**29) == "1.50 GiB"
    assert wording.value("speedup", 1.23456) == "1.235"
    assert wording.value("memory_bytes_peak", None) == "–"


def test_markdown_has_findings_first_and_is_a_table_of_equal_rows() -> None:
    lines = [line for line in render_markdown(comparison()).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {9}
    assert lines[2].endswith("| worse |")
    assert all("none found" in line for line in lines[3:])


def test_names_from_outside_are_no_markup() -> None:
    markdown = render_markdown(comparison(workload="a|b <script> *c*"))
    assert "<script>" not in markdown
    assert "a\\|b &lt;script> \\*c\\*" in markdown


def test_a_large_comparison_fits_a_comment() -> None:
    markdown = render_markdown(comparison(cells=1_000))
    assert len(markdown.encode()) <= COMMENT_BYTES
    assert "more are left out here for length: all are in `specbench compare --json`" in markdown
    assert markdown.index("| worse |") < markdown.index("left out here")


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_plot_is_written_in_the_format_of_its_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"forest.{kind}"
    write_forest(path, comparison(others="BC"))
    assert path.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml", b"%PDF-")
    if kind == "png":
        with Image.open(path) as image:
            assert image.width == pytest.approx(WIDTH * 220, abs=2)
    with pytest.raises(SpecbenchError, match=r"ends in .png, .svg or .pdf"):
        write_forest(tmp_path / "forest.jpg", comparison())


def test_the_plot_has_a_row_for_each_cell_filled_where_a_difference_was_found() -> None:
    figure = draw_forest(comparison())
    (axes,) = figure.axes
    assert [t.get_text() for t in axes.get_yticklabels()] == [f"chat ngram-g4, batch {b}" for b in (1, 2, 3)]
    markers = [line for line in axes.lines if line.get_marker() == "o"]
    assert [m.get_markerfacecolor() == "white" for m in markers] == [True, False, True]
    assert markers[1].get_xdata()[0] == pytest.approx(-0.2, abs=0.03)


def test_of_many_rows_the_plot_shows_what_changed_most_and_says_so() -> None:
    figure = draw_forest(comparison(cells=200))
    (axes,) = figure.axes
    assert len(axes.get_yticks()) == 60
    assert all(int(t.get_text().split()[-1]) % 2 == 0 for t in axes.get_yticklabels())
    written = " ".join(t.get_text() for t in figure.findobj(Text) if isinstance(t, Text))
    assert "140 smaller changes are left out." in " ".join(written.split())


def test_without_an_interval_there_is_nothing_to_plot() -> None:
    single = side("A")
    cells = tuple(c.model_copy(update={"figures": {"speedup": (1.5,)}}) for c in single.snapshot.cells)
    alone = Side("A", single.path, single.snapshot.model_copy(update={"cells": cells, "replicates": (0,)}))
    unjudged = compare([alone, Side("B", Path("b"), alone.snapshot)], Wanted(metrics=("speedup",)))
    with pytest.raises(SpecbenchError, match="nothing to plot"):
        draw_forest(unjudged)
