"""Plots show the figures of the run, name the machine, and can be told apart without colour."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from known_run import NGRAM, failed, measurement, store
from PIL import Image

from specbench.analysis.summary import summarize
from specbench.report.plots import Plot, draw_plots, png, svg
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


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plot]:
    return plots(tmp_path_factory.mktemp("run"), RUN)


def test_every_plot_is_drawn_and_has_ink(drawn: dict[str, Plot]) -> None:
    assert [*drawn] == ["speedup", "pareto", "acceptance", "cost", "resources"]
    for plot in drawn.values():
        pixels = np.asarray(Image.open(io.BytesIO(png(plot))).convert("L"))
        assert pixels.std() > 10
        assert min(pixels.shape) > 250


def test_what_the_font_lacks_is_replaced_without_a_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    run = store(tmp_path, RUN)
    summary = replace(summarize(run), run="日本\x1b[31m é")
    plot = draw_plots(summary, run.measurements())[0]
    png(plot)
    text = svg(plot)
    assert "��[31m é" in text
    assert not recwarn.list


def test_the_heat_map_holds_the_speedups_as_numbers(drawn: dict[str, Plot]) -> None:
    text = svg(drawn["speedup"])
    assert ">2.50<" in text
    assert ">0.71<" in text


def test_a_void_cell_is_not_coloured_as_a_gain(tmp_path: Path) -> None:
    run = [measurement(), measurement(NGRAM, accepted=1, steps=(0.002,))]
    (heat_map,) = (p for p in draw_plots(summarize(store(tmp_path, run)), run) if p.name == "speedup")
    (axes,) = heat_map.figure.axes
    assert re.fullmatch(r"\(\d\.\d\d\)", axes.texts[0].get_text())
    assert axes.collections[0].get_array().mask.all()


@pytest.mark.parametrize("name", ["speedup", "pareto", "acceptance", "cost", "resources"])
def test_every_plot_names_the_machine_and_says_what_is_to_see(drawn: dict[str, Plot], name: str) -> None:
    assert "2-core CPU (Example 9000)" in svg(drawn[name])
    assert drawn[name].caption.endswith(".")


def test_without_a_price_throughput_stands_in_for_cost(tmp_path: Path) -> None:
    assert "throughput" in plots(tmp_path, RUN, gpu_price=None)


def test_what_was_not_measured_is_not_drawn(tmp_path: Path) -> None:
    assert plots(tmp_path / "a", [failed()]) == {}
    assert [*plots(tmp_path / "b", [measurement()])] == ["pareto", "cost"]


def test_a_plot_is_the_same_every_time(tmp_path: Path) -> None:
    first, second = (plots(tmp_path / name, RUN)["pareto"] for name in "ab")
    assert svg(first) == svg(second)


def test_arms_differ_in_more_than_colour() -> None:
    arms = [("none", 0), *((method, gamma) for method in ("ngram", "draft_model") for gamma in (2, 4))]
    styles = line_styles(arms)
    assert len({(s.colour, s.marker) for s in styles.values()}) == 5
    assert styles["ngram", 2].marker != styles["ngram", 4].marker
    assert styles["ngram", 2].colour != styles["draft_model", 2].colour


def test_names_with_dollar_signs_and_a_server_of_eight_gpus_are_drawn(tmp_path: Path) -> None:
    samples = [Sample(i * 0.1, f"gpu{i % 8}", 10**9, 50.0) for i in range(80)]
    name = r"cost in $ and \frac{$"
    drawn = plots(tmp_path, [measurement(workload=name, telemetry=samples), measurement(NGRAM, workload=name)])
    assert f">{name}<" in svg(drawn["pareto"])
    assert all(f">gpu{i}<" in svg(drawn["resources"]) for i in range(8))


def test_many_samples_are_thinned(tmp_path: Path) -> None:
    samples = [Sample(i * 0.1, "gpu0", 10**9, i % 100) for i in range(20_000)]
    drawn = plots(tmp_path, [measurement(telemetry=samples), measurement(Speculation("ngram", 2), accepted=1)])
    assert len(svg(drawn["resources"])) < 200_000
