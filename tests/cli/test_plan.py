"""`specbench plan` as a user meets it: from the catalogue, from the committed run, the worked examples."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from specbench.cli.main import app
from specbench.errors import SpecbenchError

ROOT = Path(__file__).parents[2]
RUN = ROOT / "reports" / "example"
DOCS = (ROOT / "docs" / "plan.md").read_text()
WORKED = DOCS.partition("## Worked examples")[2]
EXAMPLES = re.findall(r"^```\n(specbench plan .*?)\n```\n\n\*\*([A-Z ]+?)\*\*", WORKED, re.MULTILINE | re.DOTALL)
CODES = {"ENABLE": 0, "DISABLE": 3, "NOT ENOUGH EVIDENCE": 4}
FAST = ("--requests", "1000", "--quiet")
CATALOGUE = ("--model", "llama-3.1-8b", "--gpu", "H200", "--acceptance", "0.75")
TRAFFIC = ("--traffic", "40 req/s, prompt 500±200, output 200±100")


def plan(*arguments: object) -> Result:
    """In this process: a new one takes longer to start than to plan."""
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def test_the_page_has_three_worked_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize(("command", "verdict"), EXAMPLES)
def test_a_worked_example_ends_as_the_page_says(command: str, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer simulated requests, and without its other sites."""
    monkeypatch.chdir(ROOT)
    words = shlex.split(command.replace("\\\n", " "))[2:]
    for option in ("--what-if", "--quantization"):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    done = plan(*words, "--requests", 3000, "--quiet")
    assert done.output.startswith(f"{verdict}: "), done.output
    assert done.exit_code == CODES[verdict]


def test_text_page_plot_and_json_of_one_plan(tmp_path: Path) -> None:
    options = (*CATALOGUE, *TRAFFIC, "--slo", "ttft_p95=500ms,tpot_p95=30ms", "--engineering-cost", "40000", *FAST)
    plot, page = tmp_path / "t.png", tmp_path / "plan.html"
    done = plan(*options, "--what-if", "L4", "--plot", plot, "--html", page)
    for words in ("Schedule of gamma by batch size: 1=", "are paid back: ", "Nothing was measured", "L4, bf16"):
        assert words in done.output
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert html.escape(done.output.splitlines()[0], quote=False) in page.read_text()
    record = json.loads(plan(*options, "--json").output)
    undocumented = {key for key in _keys(record) if f"`{key}`" not in DOCS}
    assert undocumented <= _keys(record["plain"]["at_peak"]) | set(record["slo"])
    assert record["plain"]["gpus"]["value"] == int(record["plain"]["gpus"]["value"])
    assert done.output.startswith(record["recommendation"])
    assert done.exit_code == CODES[record["recommendation"].partition(" UP TO")[0]]


def test_a_run_gives_speeds_acceptance_and_lengths() -> None:
    """n-gram lookup on a 2-core CPU, for structured answers."""
    volume = ("--tokens-per-month", "1e9", "--peak-factor", "2")
    done = plan(RUN, "--workload", "structured", *volume, "--json", *FAST)
    record = json.loads(done.output)
    assert done.exit_code in CODES.values()
    assert record["is_measured"]
    assert record["method"] == "ngram"
    assert record["traffic"]["output_tokens_per_month"] == pytest.approx(1e9)
    assert record["traffic"]["peak_requests_per_s"] == pytest.approx(2 * record["traffic"]["requests_per_s"])


def test_what_a_run_shows_of_acceptance_is_carried_to_hardware_that_was_not_measured() -> None:
    there = ("--model", "llama-3.1-8b", "--gpu", "H200")
    done = plan(RUN, "--workload", "structured", *there, *TRAFFIC, "--json", *FAST)
    record = json.loads(done.output)
    assert not record["is_measured"]
    assert record["workload"] == "structured"
    assert any("Nothing was measured on H200" in line for line in record["assumptions"])


def test_a_trace_says_how_much_comes_and_a_volume_how_often_it_does(tmp_path: Path) -> None:
    """A request a second for an hour, 10 a second in its last six minutes."""
    trace = tmp_path / "hour.csv"
    arrivals = [*range(3240), *(3240 + i / 10 for i in range(3601))]
    trace.write_text("timestamp,prompt_tokens,output_tokens\n" + "".join(f"{t:.1f},300,100\n" for t in arrivals))
    seen = json.loads(plan(*CATALOGUE, "--traffic", trace, "--json", *FAST).output)["traffic"]
    assert seen["requests_per_s"] == pytest.approx(6841 / 3600)
    assert seen["peak_requests_per_s"] == pytest.approx(10, rel=0.01)
    scaled = json.loads(plan(*CATALOGUE, "--traffic", trace, "--tokens-per-month", "1e9", "--json", *FAST).output)
    assert scaled["traffic"]["output_tokens_per_month"] == pytest.approx(1e9)
    ratio = scaled["traffic"]["peak_requests_per_s"] / scaled["traffic"]["requests_per_s"]
    assert ratio == pytest.approx(seen["peak_requests_per_s"] / seen["requests_per_s"])


def test_the_report_of_a_run_shows_the_plan_that_was_kept_with_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    done = plan(run, "--workload", "chat", "--gpu-price", "0.1", *TRAFFIC, "--into-report", *FAST)
    page = (run / "report.html").read_text()
    assert "Fleet plan" in page
    assert html.escape(done.output.splitlines()[0], quote=False) in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--gpu", "H200", *TRAFFIC), "give a RUN to plan from, or both --model and --gpu"),
        (CATALOGUE, "how much is to be served?"),
        ((*CATALOGUE, "--traffic", "many"), "traffic"),
        ((*CATALOGUE, *TRAFFIC, "--acceptance", "1.2"), "above 0 and below 1"),
        ((*CATALOGUE, *TRAFFIC, "--headroom", "100%"), "--headroom: expected less than 100%"),
        ((*CATALOGUE, *TRAFFIC, "--dtype", "fp3"), "'fp3' is no type of weights"),
        ((*CATALOGUE, *TRAFFIC, "--slo", "tpot_p95=100us"), "--slo"),
        ((*CATALOGUE, *TRAFFIC, "--slo", "tpot_p95=0.1ms"), "does not meet tpot_p95=0.1ms, however little comes"),
        ((*CATALOGUE, *TRAFFIC, "--currency", "BRL"), "no price of H200 in BRL"),
        ((*CATALOGUE, *TRAFFIC, "--method", "eagle9"), "--method: 'eagle9' is not known"),
        ((*CATALOGUE, *TRAFFIC, "--into-report"), "--into-report is for a plan from a RUN"),
        ((*CATALOGUE, *TRAFFIC, "--engineering-cost", "-1"), "--engineering-cost"),
        ((*CATALOGUE, *TRAFFIC, "--gpu-count", "1000000000"), "--gpu-count: expected a number above 0"),
        ((*CATALOGUE, "--traffic", ""), "no traffic in words"),
        ((*CATALOGUE, "--traffic", "missing.csv"), "no trace missing.csv"),
        ((*CATALOGUE, "--traffic", "~nobody-here/day.csv"), "there is no home directory ~nobody-here"),
        (("--model", "llama-3.3-70b", "--gpu", "H200", *TRAFFIC), "leave no room for a KV cache on H200"),
        ((RUN, *TRAFFIC, "--gpu-price", "1"), "several workloads"),
        ((RUN, *TRAFFIC, "--method", "eagle3"), "no such arm to plan with"),
        (
            (RUN, *TRAFFIC, "--workload", "chat", "--currency", "EUR"),
            "--gpu-price: what an hour of the run's machine costs",
        ),
        ((RUN, *TRAFFIC, "--workload", "chat", "--gpu-price", "1", "--quantization", "int4"), "--quantization"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[object, ...], said: str) -> None:
    done = plan(*arguments, *FAST)
    assert isinstance(done.exception, SpecbenchError), done.output
    assert said in str(done.exception)
    assert "\n" not in str(done.exception)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--peak-factor", "inf"),
        ("--peak-factor", "nan"),
        ("--horizon-months", "0"),
        ("--horizon-months", "1e308"),
        ("--max-batch-size", "1000000000"),
    ],
)
def test_a_figure_that_nobody_means_is_refused_before_anything_is_reckoned(option: str, value: str) -> None:
    done = plan(*CATALOGUE, *TRAFFIC, option, value, *FAST)
    assert done.exit_code == 2
    assert option in done.output


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in _keys(item)}
    return {key for item in value for key in _keys(item)} if isinstance(value, list) else set()
