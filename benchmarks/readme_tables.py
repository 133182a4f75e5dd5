"""The README's tables, made from committed result files.

    python benchmarks/readme_tables.py [--check]

Each table stands between `<!-- table: NAME -->` and `<!-- /table -->`. --check changes nothing and exits 1 when a table
is not that of its file.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from decoder_tables import (
    bandwidth_table,
    decoder_table,
    engines_table,
    head_table,
    kernel_table,
    other_drafts_table,
    trees_table,
)
from markdown_table import METHODS, RESULTS, ROOT, table

from specbench.analysis.marks import VOIDING

Row = Mapping[str, str]


def sweep_table(run: str) -> str:
    """One row per cell of reports/`run`/cells.csv."""
    with (ROOT / "reports" / run / "cells.csv").open(encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    head = ("workload", "method", "batch", "tok/s", "speedup [95 %]", "tokens per step (degenerate)", "TPOT p50", "$/M",
            "outputs")  # fmt: skip
    return table(head, [_cell(cell) for cell in cells])


def _cell(cell: Row) -> Sequence[str]:
    if cell["status"] != "ok":
        return (cell["workload"], _method(cell), cell["batch_size"], "failed", "", "", "", "", "")
    speed = cell["output_tokens_per_s"]
    length = cell["mean_acceptance_length"]
    loops = int(cell["degenerate_requests"])
    return (
        cell["workload"],
        _method(cell),
        cell["batch_size"],
        f"{float(speed):.1f}" if speed else f"({float(cell['run_output_tokens_per_s']):.1f})",
        _speedup(cell),
        (f"{float(length):.2f}" if length else "–") + (f" ({loops})" if loops else ""),
        f"{float(cell['tpot_ms_p50']):.1f} ms" if cell["tpot_ms_p50"] else "–",
        f"{float(cell['cost_per_million_output_tokens']):.2f}" if cell["cost_per_million_output_tokens"] else "–",
        cell["equivalence"],
    )


def _method(cell: Row) -> str:
    name = METHODS.get(cell["method"], cell["method"])
    return f"{name}, γ {cell['gamma']}" if int(cell["gamma"]) else name


def _speedup(cell: Row) -> str:
    if cell["method"] == "none":
        return "1.00"
    if not cell["speedup"]:
        return "–"
    low, high = cell["speedup_ci_low"], cell["speedup_ci_high"]
    text, star = f"{float(cell['speedup']):.2f}", "" if cell["marks"] == "[]" else " \\*"
    if not low or not high:
        return text + star
    if float(high) > 10 * float(low):
        return f"{text} [?]{star}"
    void = VOIDING & {mark["code"] for mark in json.loads(cell["marks"])}
    shown = f"**{text}**" if float(f"{float(low):.2f}") > 1 and not void else text
    return f"{shown} [{float(low):.2f}, {float(high):.2f}]{star}"


def client_table() -> str:
    """Our client beside vLLM's own, from benchmarks/client_vs_vllm_bench.py --json."""
    report = json.loads((RESULTS / "client_vs_vllm_bench.json").read_text("utf-8"))
    rows = []
    for name in report["ours"][0]:
        unit = "ms" if name.endswith("_ms") else "tokens/s"
        ours, theirs = ([figures[name] for figures in report[side]] for side in ("ours", "vllm"))
        shown = (f"{fmean(values):.1f} ± {stdev(values):.1f} {unit}" for values in (ours, theirs))
        rows.append((name.removesuffix("_ms").replace("_", " "), *shown, f"{fmean(ours) / fmean(theirs):.3f}"))
    return table(("figure", "specbench", "vllm bench serve", "ratio"), rows)


def decision_table() -> str:
    """False alarms, detection and coverage of the decision rule, from benchmarks/decision_rule.py."""
    report = json.loads((RESULTS / "decision_rule.json").read_text("utf-8"))
    rows = [
        (f"no change, {r['comparison']}", _pairs(r), f"{r['series']:,}",
         f"{r['per_1000']:.1f} false per 1,000 (95 % sure: below {r['per_1000_below']:.2f})")
        for r in report["false_regressions"]
    ]  # fmt: skip
    rows += [
        (f"a loss of {r['loss']:.0%}, noise {r['noise_per_arm']:.1%} per arm", _pairs(r), f"{r['series']:,}",
         f"{r['found']:.1%} found" + (" in one cell at least" if r["cells"] > 1 else ""))
        for r in report["detection"]
    ]  # fmt: skip
    rows += [
        (f"95 % interval, {r['interval']}", r["stopping"], f"{r['sweeps']:,}", f"{r['coverage']:.1%} hold the truth")
        for r in report["coverage"]
    ]
    return table(("simulated", "pairs of launches, or when it stops", "comparisons", "seen"), rows)


def _pairs(row: Mapping[str, Any]) -> str:
    return f"{row['pairs']}, {row['cells']} cells" if row["cells"] > 1 else str(row["pairs"])


def compare_table() -> str:
    """False findings of specbench compare and of Welch's test as it is, from benchmarks/compare_error_rates.py."""
    report = json.loads((RESULTS / "compare_error_rates.json").read_text("utf-8"))
    rows = [
        (f"{r['before']} against {r['after']}", f"{r['spread']:.2g}", str(r["figures"]),
         f"{r['welch']:.1%}", f"{r['compare']:.1%}")
        for r in report["false_findings"]
    ]  # fmt: skip
    head = ("launches", "spread of the second over the first", "figures", "Welch and Holm", "specbench compare")
    return table(head, rows)


def fit_grid_table() -> str:
    """Predictions of the cells that a fit left out, on a grid of others, from benchmarks/fit_public_grid.py."""
    report = json.loads((RESULTS / "fit_public_grid.json").read_text("utf-8"))
    return table(_FIT_HEAD, [_fit_row(r) for r in report["results"]])


def fit_runs_table() -> str:
    """The same on our own runs, from benchmarks/fit_recorded_runs.py."""
    report = json.loads((RESULTS / "fit_recorded_runs.json").read_text("utf-8"))
    rows = [(run["run"], *_fit_row(r)) for run in report["runs"] for r in run["results"]]
    return table(("run", *_FIT_HEAD), rows)


_FIT_HEAD = ("fitted cells", "mean error: throughput, speedup", "90 % intervals that hold",
             "throughput lost by the gamma predicted best: mean, worst")  # fmt: skip


def _fit_row(r: Mapping[str, Any]) -> tuple[str, ...]:
    splits = f", {r['splits']} times" if r["splits"] > 1 else ""
    speedup = r["speedup_mape_percent"]
    return (
        f"{r['cells']} of {r['of']}: {r['choice']}{splits}",
        f"{r['mape_percent']:.1f} %, " + ("–" if speedup is None else f"{speedup:.1f} %"),
        f"{r['coverage_percent']:.0f} % of {r['held_out']}",
        f"{r['regret_percent']:.1f} %, {r['worst_regret_percent']:.1f} %",
    )


def until_confident_table() -> str:
    """Cells that a sweep takes which chooses them, on grids measured whole, from benchmarks/until_confident.py."""
    report = json.loads((RESULTS / "until_confident.json").read_text("utf-8"))
    rows = [
        (
            r["grid"], r["how"], f"{r['launch_cost']:g} cells",
            f"{r['cells']} of {r['of']} ({r['share_percent']:.0f} %)",
            str(r["starts"]), r["ended"], f"{r['settled']} of {r['places']}",
            f"{r['same_arm']}, {r['as_good']} of {r['places']}",
            f"{r['regret_percent']:.1f} %, {r['worst_regret_percent']:.1f} %",
        )
        for r in report["replays"]
    ]  # fmt: skip
    head = ("grid", "until", "a start costs", "cells", "starts", "ended", "places sure",
            "same arm as the whole grid, or as good", "throughput lost: mean, worst")  # fmt: skip
    return table(head, rows)


def known_worlds_table() -> str:
    """How often what it calls sure is wrong, on grids of known truth, from the same script."""
    report = json.loads((RESULTS / "until_confident.json").read_text("utf-8"))
    rows = [
        (
            f"{w['noise_percent']:g} %", f"{w['worlds']} of 24 cells", f"{w['share_percent']:.0f} %",
            f"{w['sure']} of {w['places']}", f"{w['wrong_percent']:.1f} %", f"{w['worst_regret_percent']:.1f} %",
        )
        for w in report["known_truth"]
    ]  # fmt: skip
    head = ("noise of a cell", "grids", "cells measured", "places called sure", "of these wrong",
            "throughput lost, worst")  # fmt: skip
    return table(head, rows)


def simulator_speed_table() -> str:
    """What the fleet simulator gets through on one core, from benchmarks/simulator_speed.py."""
    rows = [
        (
            r["case"], r["policy"], f"{r['requests']:,}", f"{r['mean_batch']:.1f}", f"{r['seconds']:.1f} s",
            f"{r['requests_per_s']:,}", f"{r['peak_memory_mb']:,} MB",
        )
        for r in json.loads((RESULTS / "simulator_speed.json").read_text("utf-8"))
    ]  # fmt: skip
    head = ("fleet", "policy", "requests", "sequences in a step", "took", "requests/s", "peak memory")
    return table(head, rows)


def sampling_table() -> str:
    """Draws until the frequency test finds a planted bug, from benchmarks/sampling_power.py."""
    report = json.loads((RESULTS / "sampling_power.json").read_text("utf-8"))
    rows = []
    for bug in report["bugs"]:
        draws = bug["draws at 0.0001"]
        support = bug["support test draws"]
        rows.append(
            (bug["bug"], f"{bug['tv']:.2f}", f"{draws['median']:,} / {draws['p90']:,}" if draws else "–",
             f"{bug['detected at 0.0001']:.1%}" if draws else "–", f"{support:,}" if support else "–")
        )  # fmt: skip
    head = ("planted bug", "TV", "draws, median / p90", "found with so many", "draws of the support test")
    return table(head, rows)


def profile_table() -> str:
    """The offset profile against runs of every gamma, from benchmarks/profile_vs_brute_force.py --json."""
    report = json.loads((RESULTS / "profile_vs_brute_force.json").read_text("utf-8"))
    rows = [
        (
            METHODS.get(method, method), f"{r['equal']} of {r['compared']}", f"{r['steps']:,}",
            f"{report['plain_decoding_seconds'] + r['profile_seconds']:.0f} s", f"{r['brute_force_seconds']:.0f} s",
        )
        for method, r in report["results"].items()
    ]  # fmt: skip
    head = ("drafter", "runs with the same steps", "steps", "profile, plain decoding included", "runs of every gamma")
    return table(head, rows)


def verify_table(run: str) -> str:
    """The sampling tests of reports/`run`/verify.json."""
    report = json.loads((ROOT / "reports" / run / "verify.json").read_text("utf-8"))["sampling"]
    rows = []
    for arm, found in report["arms"].items():
        for test in found["tests"]:
            if test["p"] is None:
                rows.append((arm, test["name"], "–", "not made", "", ""))
                continue
            effect = test["effect"]
            shown = f"{effect['tv']:.2f} [{effect['low']:.2f}, {effect['high']:.2f}]" if effect else "–"
            rows.append((arm, test["name"], f"{test['n']:,}", f"{test['p']:.2g}", f"{test['adjusted']:.2g}", shown))
    return table(("arm", "test", "n", "p", "p (Holm)", "TV [95 %]"), rows)


def gate_table() -> str:
    """What the gate says of the reference decoder against itself, from benchmarks/gate_on_reference.py."""
    report = json.loads((RESULTS / "gate_on_reference.json").read_text("utf-8"))
    rows = []
    for name, said in report["gates"].items():
        for finding in (f for f in said["findings"] if f["about"] != "outputs"):
            change, low, high = (finding[key] for key in ("change", "low", "high"))
            shown = "–" if low is None else f"{change - 1:+.1%} [{low - 1:+.1%}, {high - 1:+.1%}]"
            gamma = finding["cell"]["gamma"]
            arm = f"{METHODS[finding['cell']['method']]}, γ {gamma}" if gamma else "plain"
            launches = str(min(finding["replicates"]))
            verdict = f"{said['verdict']}, {said['exit_code']}"
            rows.append((name, arm, finding["about"], launches, shown, finding["outcome"], verdict))
    head = ("candidate", "arm", "figure", "pairs", "change [its interval]", "outcome", "verdict and exit code")
    return table(head, rows)


def open_loop_table() -> str:
    """The simulator against real open loops, from benchmarks/simulator_vs_open_loop.py: a row per figure."""
    rows = json.loads((RESULTS / "simulator_vs_open_loop.json").read_text("utf-8"))
    shown = []
    for name in dict.fromkeys(r["figure"] for r in rows):
        its = [r for r in rows if r["figure"] == name]
        mean = fmean(abs(r["error_percent"]) for r in its)
        near = sum(abs(r["error_percent"]) <= 10 for r in its)
        shown.append(
            (
                name.replace("_", " "),
                f"{mean:.1f} %",
                f"{near} of {len(its)}",
                f"{sum(r['holds'] for r in its)} of {len(its)}",
            )
        )
    return table(("figure", "mean error", "within 10 %", "within 10 % or the measurement's own interval"), shown)


TABLES: Mapping[str, Callable[[], str]] = {
    "example": lambda: sweep_table("example"),
    "example-grid": lambda: sweep_table("example-grid"),
    "example-structured": lambda: sweep_table("example-structured"),
    "example-vllm": lambda: sweep_table("example-vllm"),
    "decoder": decoder_table,
    "client": client_table,
    "decision": decision_table,
    "compare-errors": compare_table,
    "fit-grid": fit_grid_table,
    "fit-runs": fit_runs_table,
    "until-confident": until_confident_table,
    "known-worlds": known_worlds_table,
    "simulator-speed": simulator_speed_table,
    "sampling": sampling_table,
    "profile": profile_table,
    "verify-vllm": lambda: verify_table("verify-vllm"),
    "drafters": head_table,
    "kernels": kernel_table,
    "trees": trees_table,
    "gate": gate_table,
    "engines": engines_table,
    "bandwidth": bandwidth_table,
    "other-drafts": other_drafts_table,
    "open-loops": open_loop_table,
}
PAGES = (
    *("README.md", "docs/results.md", "docs/training.md", "docs/kernels.md", "docs/simulate.md"),
    *("docs/methodology.md", "docs/compare.md", "docs/fit.md", "docs/gate.md", "docs/trees.md", "docs/sequential.md"),
    "docs/drafters.md",
)
_MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- /table -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with every marked table made anew."""
    return _MARKED.sub(lambda match: f"{match[1]}\n{TABLES[match[2]]()}\n\n{match[3]}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the README's tables from committed result files.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a table is stale")
    check = parser.parse_args().check
    stale = []
    for name in PAGES:
        path = ROOT / name
        page = path.read_text("utf-8")
        if (made := with_tables(page)) != page:
            stale.append(name)
            if not check:
                path.write_text(made, "utf-8")
    if check and stale:
        sys.exit(f"tables are stale in: {', '.join(stale)}. Run python benchmarks/readme_tables.py")


if __name__ == "__main__":
    main()
