"""A run reported end to end: every file is there, right, and safe to forward."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from known_pages import Page
from known_run import NGRAM, failed, measurement, output_of, request, store
from PIL import Image
from typer.testing import CliRunner

from specbench.analysis.summary import summarize
from specbench.cli import report as cli
from specbench.errors import SpecbenchError
from specbench.report.recipe import config_yaml
from specbench.report.write import ReportPaths, write_report
from specbench.speculation import BASELINE
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore
from specbench.sweep.config_file import load_config
from specbench.telemetry.sample import Sample

HOSTILE = "<script>alert('x')</script> | ``` \n# heading"
SAMPLES = [Sample(i * 0.1, "host", 10**9 + i, 100.0) for i in range(20)]
RUN = [
    measurement(telemetry=SAMPLES),
    measurement(NGRAM, accepted=3, telemetry=SAMPLES, outputs={3: (*output_of("p003", 20), 7)}),
    measurement(batch_size=2, requests=16),
    measurement(NGRAM, 2, requests=16, accepted=1, steps=(0.03,)),
    failed(NGRAM, 4, error=f"died: {HOSTILE}", log_tail=f"last words {HOSTILE}"),
]


@pytest.fixture
def run(tmp_path: Path) -> RunStore:
    return store(tmp_path / "run", RUN)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> ReportPaths:
    return reported(store(tmp_path_factory.mktemp("run"), RUN), tmp_path_factory.mktemp("out"))


@pytest.fixture(scope="module")
def html(written: ReportPaths) -> str:
    return written.html.read_text(encoding="utf-8")


def reported(run: RunStore, out: Path | None = None) -> ReportPaths:
    measurements = run.measurements()
    return write_report(summarize(run, measurements), measurements, run.path, out)


def test_every_file_is_written_and_named(run: RunStore, tmp_path: Path) -> None:
    paths = reported(run, tmp_path / "out" / "deep")
    assert paths.requests is not None
    files = {paths.html, paths.markdown, paths.csv, paths.cells, paths.json, paths.requests, *paths.plots}
    assert files == set((tmp_path / "out" / "deep").iterdir())
    assert all(path.stat().st_size > 500 for path in files)
    for path in paths.plots:
        with Image.open(path) as image:
            assert image.format == "PNG"


def test_plots_come_in_the_formats_that_are_asked_for_and_always_as_png(run: RunStore, tmp_path: Path) -> None:
    assert command(str(run.path), "--output", str(tmp_path / "out"), "--plots", "svg,pdf").exit_code == 0
    names = {path.name for path in (tmp_path / "out").glob("pareto.*")}
    assert names == {"pareto.png", "pareto.svg", "pareto.pdf"}
    with pytest.raises(SpecbenchError, match="--plots: 'jpg' is no format of a plot"):
        raise command(str(run.path), "--plots", "jpg").exception


def test_by_default_the_report_lies_in_the_run_and_the_run_stays_readable(run: RunStore) -> None:
    before = run.measurements()
    assert reported(run).html == run.path / "report.html"
    assert RunStore.open(run.path).measurements() == before
    run.compact()
    reported(run)
    assert RunStore.open(run.path).measurements() == before


def test_the_runs_own_table_of_requests_is_left_alone(run: RunStore) -> None:
    assert reported(run, run.path / ".." / run.path.name).requests is None
    assert not (run.path / "requests.parquet").exists()
    run.compact()
    before = (run.path / "requests.parquet").stat()
    reported(run)
    assert (run.path / "requests.parquet").stat().st_ino == before.st_ino


def test_text_from_outside_stays_text(html: str, written: ReportPaths) -> None:
    markdown = written.markdown.read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert HOSTILE.split("|")[0] in Page(html).text
    outside_of_logs = re.sub(r"(````+)text\n.*?\n\1", "", markdown, flags=re.DOTALL)
    assert "<script>" not in outside_of_logs
    assert "\n# heading" not in outside_of_logs
    assert "last words <script>" in markdown


def test_names_are_no_markup_in_markdown(tmp_path: Path) -> None:
    name = "a_b [x](y) *z* `t` $p$"
    run = store(tmp_path, [measurement(workload=name), measurement(NGRAM, workload=name, accepted=3)])
    markdown = reported(run).markdown.read_text(encoding="utf-8")
    assert "a_b [x]\\(y) \\*z\\* \\`t\\` $p$" in markdown
    assert name not in markdown.split("```yaml")[0]


def test_markdown_tables_are_rectangular(written: ReportPaths) -> None:
    lines = written.markdown.read_text(encoding="utf-8").splitlines()
    widths: list[set[int]] = [set()]
    for line in lines:
        if line.startswith("|"):
            widths[-1].add(len(re.findall(r"(?<!\\)\|", line)))
        elif widths[-1]:
            widths.append(set())
    assert all(len(table) <= 1 for table in widths)
    assert "![" in "".join(lines)
    assert lines[0].startswith("# ")


def test_csv_json_and_parquet_hold_the_same_run(written: ReportPaths) -> None:
    report = json.loads(written.json.read_text(encoding="utf-8"))
    rows = list(csv.DictReader(io.StringIO(written.csv.read_text(encoding="utf-8"))))
    assert len(rows) == len(report["cells"]) == 5
    for cell, row in zip(report["cells"], rows, strict=True):
        assert [*cell] == [*row]
        assert row["speedup"] == ("" if cell["speedup"] is None else str(cell["speedup"]))
        assert json.loads(row["marks"]) == cell["marks"]
    table = pq.read_table(written.cells)
    assert table.column_names == [*report["cells"][0]]
    for cell, row in zip(report["cells"], table.to_pylist(maps_as_pydicts="strict"), strict=True):
        assert row == cell
    assert written.requests is not None
    assert pq.read_table(written.requests).num_rows == sum(len(m.traces) for m in RUN)


def test_the_recipe_is_a_configuration_that_reads_back(written: ReportPaths, run: RunStore) -> None:
    markdown = written.markdown.read_text(encoding="utf-8")
    config = yaml.safe_load(markdown.split("```yaml\n")[1].split("```")[0])
    assert load_config(None, config) == load_config(None, run.manifest["config"])


def test_the_recipe_leaves_defaults_out_but_not_what_was_measured(tmp_path: Path) -> None:
    full = load_config(None, {"workload": ["chat.jsonl"], "max_tokens": 99}).model_dump(mode="json")
    run = store(tmp_path, [measurement()], **full)
    shown = yaml.safe_load(config_yaml(summarize(run)))
    assert set(shown) == {"workload", "backend", "target", "method", "gamma", "batch_size", "max_tokens"}
    assert load_config(None, shown) == load_config(None, full)


def test_the_recipe_names_the_precision_on_a_gpu_where_the_default_is_another(tmp_path: Path) -> None:
    full = load_config(None, {"workload": ["chat.jsonl"], "device": "cuda", "dtype": "float32"}).model_dump(mode="json")
    shown = yaml.safe_load(config_yaml(summarize(store(tmp_path, [measurement()], **full))))
    assert load_config(None, shown) == load_config(None, full)


@pytest.mark.parametrize(
    "measurements",
    [
        [],
        [measurement()],
        [failed(BASELINE), failed()],
        [measurement(batch_size=8), measurement(NGRAM, 8, accepted=3)],
        [measurement(NGRAM, traces=(request(error="timeout", token_ids=()),), counters=None, client_lag_p99=None)],
    ],
    ids=["nothing", "baseline alone", "all failed", "too short", "one failed request"],
)
def test_a_poor_run_gets_a_report_too(tmp_path: Path, measurements: list[Measurement]) -> None:
    paths = reported(store(tmp_path, measurements, gpu_price=None))
    assert Page(paths.html.read_text(encoding="utf-8")).open == []
    assert "NOT ENOUGH EVIDENCE" in paths.markdown.read_text(encoding="utf-8")


def test_a_report_does_not_mix_with_another_run(run: RunStore, tmp_path: Path) -> None:
    other = store(tmp_path / "other", [measurement()])
    other.compact()
    before = (other.path / "requests.parquet").exists(), other.measurements()
    with pytest.raises(SpecbenchError, match="is another run"):
        write_report(summarize(run), run.measurements(), run.path, other.path)
    assert ((other.path / "requests.parquet").exists(), RunStore.open(other.path).measurements()) == before


def test_what_is_no_run_and_what_cannot_be_written_is_said(run: RunStore, tmp_path: Path) -> None:
    assert isinstance(command(str(tmp_path)).exception, SpecbenchError)
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecbenchError, match="Choose another --output"):
        reported(run, tmp_path / "file")


def test_a_report_into_its_run_can_be_written_again(run: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("specbench.report.write._write", full)
    with pytest.raises(SpecbenchError, match=f"No space left.*make room there, and specbench report {run.path} writes"):
        reported(run, None)


def command(*arguments: str) -> Any:
    import typer

    app = typer.Typer()
    app.command()(cli.report)
    return CliRunner().invoke(app, list(arguments))


def test_the_command_prints_the_table_and_where_the_report_is(run: RunStore, tmp_path: Path) -> None:
    result = command(str(run.path), "--output", str(tmp_path / "out"))
    assert result.exit_code == 0
    assert "ngram γ4" in result.output
    assert f"Report: {tmp_path / 'out' / 'report.html'}" in result.output


def test_the_command_takes_prices_that_the_run_was_not_told(run: RunStore) -> None:
    result = command(str(run.path), "--gpu-price", "4", "--currency", "BRL", "--tokens-per-month", "1e9", "--json")
    cells, own = json.loads(result.output)["cells"], summarize(run).to_json()["cells"]
    assert [c["currency"] for c in cells[:4]] == ["BRL"] * 4
    assert cells[1]["cost_per_million_output_tokens"] == pytest.approx(2 * own[1]["cost_per_million_output_tokens"])
    assert cells[1]["gpus_needed"] is not None
    assert "BRL" in (run.path / "report.md").read_text(encoding="utf-8")
    with pytest.raises(SpecbenchError, match="--gpu-price"):
        summarize(run, pricing={"gpu_price": -1.0})


def test_the_command_prints_json_alone_or_nothing(run: RunStore) -> None:
    assert json.loads(command(str(run.path), "--json").output) == summarize(run).to_json()
    assert command(str(run.path), "--quiet").output == ""
