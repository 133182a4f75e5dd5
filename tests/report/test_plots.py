"""Plots show the figures of the run, name the machine, and can be told apart without colour."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from known_run import NGRAM, failed, measurement, store
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from specbench.analysis.marks import Mark
from specbench.analysis.summary import summarize
from specbench.report.figure_file import FORMATS, WIDTH, rendered
from specbench.report.plots import Plot, draw_plots
from specbench.report.style import line_styles
from specbench.speculation import Speculation
from specbench.store.measurement import Measurement
from specbench.telemetry.sample import Sample

SAMPLES = [Sample(i * 0.1, "host", 10**9 + i, 100.0) for i in range(20)]
RUN = [
    measurement(telemetry=SAMPLES),
    measurement(NGRAM, accepted=3, telemetry=SAMPLES),
    measurement(batch_size=2, requests=16),
    measurement(NGRAM, 2, requests=16, accepted=1, steps=(0.03,)),
]


def plots(path: Path, measurements: list[Measurement], **config: object) -> dict[str, Plot]:
    run = store(path, measurements, **config)
    return {plot.name: plot for plot in draw_plots(summarize(run), run.measurements())}


def texts(plot: Plot) -> list[str]:
    """Everything that is written in it."""
    return [found.get_text() for found in plot.figure.findobj(Text) if isinstance(found, Text)]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plot]:
    return plots(tmp_path_factory.mktemp("run"), RUN)


def test_every_plot_is_drawn_and_has_ink(drawn: dict[str, Plot]) -> None:
    assert [*drawn] == ["speedup", "pareto", "acceptance", "cost", "resources"]
    for plot in drawn.values():
        pixels = np.asarray(Image.open(io.BytesIO(rendered(plot.figure, "png"))).convert("L"))
        assert pixels.std() > 10
        assert min(pixels.shape) > 150


def test_every_plot_is_a_papers_column_wide_and_its_letters_can_be_read_there(drawn: dict[str, Plot]) -> None:
    for plot in drawn.values():
        assert plot.figure.get_figwidth() == WIDTH
        foot = plot.figure._supxlabel  # type: ignore[attr-defined]
        sizes = [t.get_fontsize() for t in plot.figure.findobj(Text) if isinstance(t, Text) and t.get_text()]
        assert foot.get_fontsize() == min(sizes) >= 5.5
        assert sorted(sizes)[len(sizes) // 2] >= 7


def test_nothing_that_is_written_runs_out_of_the_figure(drawn: dict[str, Plot]) -> None:
    for plot in drawn.values():
        canvas = FigureCanvasAgg(plot.figure)
        canvas.draw()
        written = [t for axes in plot.figure.axes for t in (axes.title, axes.xaxis.label, axes.yaxis.label)]
        written += [t for axes in plot.figure.axes for t in (*axes.texts, *axes.get_yticklabels())]
        written += [t for legend in plot.figure.legends for t in legend.get_texts()]
        for text in filter(Text.get_text, written):
            box = text.get_window_extent(canvas.get_renderer())
            assert plot.figure.bbox.x0 - 2 <= box.x0 < box.x1 <= plot.figure.bbox.x1 + 2, text.get_text()


def test_png_svg_and_pdf_are_what_they_say_and_the_same_every_time(drawn: dict[str, Plot]) -> None:
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for kind in FORMATS:
        first, second = (rendered(drawn["pareto"].figure, kind) for _ in range(2))
        assert first.startswith(begins[kind])
        assert first == second


def test_what_the_font_lacks_is_replaced_without_a_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    run = store(tmp_path, RUN)
    summary = replace(summarize(run), run="日本\x1b[31m é")
    plot = draw_plots(summary, run.measurements())[0]
    rendered(plot.figure, "png")
    assert any("��[31m é" in text for text in texts(plot))
    assert not recwarn.list


def test_the_heat_map_holds_the_speedups_as_numbers(drawn: dict[str, Plot]) -> None:
    assert {"2.50", "0.71", "ngram γ4"} <= set(texts(drawn["speedup"]))


def test_a_void_cell_is_not_coloured_as_a_gain(tmp_path: Path) -> None:
    run = [measurement(), measurement(NGRAM, accepted=1, steps=(0.002,))]
    (heat_map,) = (p for p in draw_plots(summarize(store(tmp_path, run)), run) if p.name == "speedup")
    (axes,) = heat_map.figure.axes
    assert re.fullmatch(r"\(\d\.\d\d\)", axes.texts[0].get_text())
    assert axes.collections[0].get_array().mask.all()


@pytest.mark.parametrize("name", ["speedup", "pareto", "acceptance", "cost", "resources"])
def test_every_plot_names_the_machine_and_says_what_is_to_see(drawn: dict[str, Plot], name: str) -> None:
    assert any("2-core CPU (Example 9000)" in text for text in texts(drawn[name]))
    assert drawn[name].caption.endswith(".")


def hollow(figure: Figure) -> list[tuple[float, float]]:
    lines = [line for axes in figure.axes for line in axes.get_lines() if line.get_markerfacecolor() == "white"]
    return [(x, y) for line in lines for x, y in np.asarray(line.get_data(), dtype=float).T.tolist()]


@pytest.mark.parametrize("why", ["void", "divergent"])
def test_what_nothing_may_rest_on_is_hollow_and_on_no_front(tmp_path: Path, why: str) -> None:
    run = store(tmp_path, RUN)
    summary = summarize(run)
    changes = {"void": {"marks": (Mark("client_lag", "Void."),)}, "divergent": {"equivalence": "DIVERGENT"}}[why]
    cells = tuple(replace(c, **changes) if c.is_speculative and c.batch_size == 1 else c for c in summary.cells)  # type: ignore[arg-type]
    (bad,) = (c for c in cells if c.is_speculative and c.batch_size == 1)
    place = (bad.per_user_tokens_per_s, bad.output_tokens_per_s)
    for marked, shown in ((summary, []), (replace(summary, cells=cells), [place])):
        drawn = {plot.name: plot.figure for plot in draw_plots(marked, run.measurements())}
        assert hollow(drawn["pareto"]) == shown
        assert len(hollow(drawn["cost"])) == len(shown)
        (axes,) = drawn["pareto"].axes
        front = set(map(tuple, np.asarray(axes.get_lines()[0].get_data(), dtype=float).T.tolist()))
        assert (place in front) is (not shown)


def test_where_nothing_is_sound_there_is_no_front(tmp_path: Path) -> None:
    run = store(tmp_path, RUN)
    summary = summarize(run)
    void = tuple(replace(c, marks=(Mark("client_lag", "Void."),)) for c in summary.cells)
    drawn = {plot.name: plot.figure for plot in draw_plots(replace(summary, cells=void), run.measurements())}
    assert len(hollow(drawn["pareto"])) == len(void)


def test_without_a_price_throughput_stands_in_for_cost(tmp_path: Path) -> None:
    assert "throughput" in plots(tmp_path, RUN, gpu_price=None)


def test_what_was_not_measured_is_not_drawn(tmp_path: Path) -> None:
    assert plots(tmp_path / "a", [failed()]) == {}
    assert [*plots(tmp_path / "b", [measurement()])] == ["pareto", "cost"]


def test_a_plot_is_the_same_every_time(tmp_path: Path) -> None:
    first, second = (plots(tmp_path / name, RUN)["pareto"].figure for name in "ab")
    assert rendered(first, "png") == rendered(second, "png")


def test_arms_differ_in_more_than_colour() -> None:
    arms = [("none", 0), *((method, gamma) for method in ("ngram", "draft_model") for gamma in (2, 4))]
    styles = line_styles(arms)
    assert len({s.marker for s in styles.values()}) == len({(s.colour, s.dash) for s in styles.values()}) == 5
    assert styles["ngram", 2].marker != styles["ngram", 4].marker
    assert styles["ngram", 2].colour != styles["draft_model", 2].colour


def test_names_with_dollar_signs_and_a_server_of_eight_gpus_are_drawn(tmp_path: Path) -> None:
    samples = [Sample(i * 0.1, f"gpu{i % 8}", 10**9, 50.0) for i in range(80)]
    name = r"cost in $ and \frac{$"
    drawn = plots(tmp_path, [measurement(workload=name, telemetry=samples), measurement(NGRAM, workload=name)])
    assert name in texts(drawn["pareto"])
    assert {f"gpu{i}" for i in range(8)} <= set(texts(drawn["resources"]))


def test_activity_of_a_gpus_parts_is_drawn_where_it_is_counted(tmp_path: Path) -> None:
    activity = {"sm_activity_percent": 40.0, "dram_activity_percent": 85.0}
    gpu = [Sample(i * 0.1, "gpu0", 10**9, 100.0, **activity) for i in range(80)]  # type: ignore[arg-type]
    host = [Sample(i * 0.1, "host", 10**8, 100.0) for i in range(80)]
    drawn = plots(tmp_path, [measurement(telemetry=[*gpu, *host]), measurement(NGRAM)])["resources"]
    assert "share of the memory bandwidth" in drawn.caption
    assert "activity, %" in texts(drawn)
    assert len(drawn.figure.axes[1].lines) == 2


def test_many_samples_are_thinned(tmp_path: Path) -> None:
    samples = [Sample(i * 0.1, "gpu0", 10**9, i % 100) for i in range(20_000)]
    drawn = plots(tmp_path, [measurement(telemetry=samples), measurement(Speculation("ngram", 2), accepted=1)])
    assert 750 < len(drawn["resources"].figure.axes[0].lines[0].get_xdata()) <= 1_500
    few = plots(tmp_path / "few", [measurement(telemetry=samples[:2_900])])
    assert len(few["resources"].figure.axes[0].lines[0].get_xdata()) == 1_450


def test_a_cost_that_falls_steeply_is_drawn_on_a_logarithmic_scale(tmp_path: Path) -> None:
    cells = summarize(store(tmp_path, RUN)).cells
    steep = [replace(c, cost_per_million_output_tokens=10.0 ** (i % 2)) for i, c in enumerate(cells)]
    summary = replace(summarize(store(tmp_path / "again", RUN)), cells=tuple(steep))
    scales = {p.name: p.figure.axes[0].get_yscale() for p in draw_plots(summary, RUN)}
    assert (scales["cost"], scales["pareto"]) == ("log", "linear")
