"""How long `specbench history` and `specbench query` take over a folder of runs, start-up included.

    python benchmarks/history_speed.py [--runs 60] [--calls 7]

The runs are of known truth (tests/analysis/known_run.py): plain decoding and n-gram with two gammas at three batch
sizes, two replicates. The first call analyses them all; the later ones read the summaries that it left.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "analysis"))

import known_run

from specbench.speculation import BASELINE, Speculation

ARMS = (BASELINE, Speculation("ngram", 2), Speculation("ngram", 4))
COMMANDS = {
    "history": ("history",),
    "history --plot": ("history", "--batch-size", "4", "--plot", "history.png"),
    "query, cells": ("query", "SELECT run, avg(speedup) FROM cells WHERE method <> 'none' GROUP BY run ORDER BY run"),
    "query, measurements": ("query", "SELECT run, sum(accepted) / sum(steps) FROM measurements GROUP BY run"),
    "query, requests": ("query", "SELECT run, sum(len(token_ids)) FROM requests GROUP BY run"),
}


def make_runs(folder: Path, count: int) -> None:
    """Runs of consecutive days, whose steps take a little longer each day, on two kinds of machine in turn."""
    for number in range(count):
        step = 0.01 * (1 + number / 1000)
        store = known_run.store(
            folder / f"run-{number:03}",
            [
                known_run.measurement(
                    arm, batch, replicate=r, steps=(step * (1 + 0.01 * r),), accepted=1 if arm.gamma else 0
                )
                for arm in ARMS
                for batch in (1, 4, 8)
                for r in (0, 1)
            ],
        )
        day = datetime(2030, 1, 1) + timedelta(days=number)
        manifest = {**store.manifest, "run": store.path.name, "created_at": f"{day.isoformat()}+00:00"}
        manifest["hardware"] = {"kind": f"machine {number % 2}"}
        store.write_json("manifest.json", manifest)
        store.compact()


def seconds(folder: Path, *arguments: str) -> float:
    """Of one call of the command, in a process of its own."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "specbench", *arguments, "--runs", str(folder)],
        check=True, capture_output=True, cwd=folder,
    )  # fmt: skip
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description="How long history and query take over a folder of runs.")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--calls", type=int, default=7, help="of each command, after the first")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_runs(folder, arguments.runs)
        print(f"{arguments.runs} runs; first call, which analyses them: {seconds(folder, 'history'):.2f} s")
        print("command\tmedian s\tbest s\tworst s")
        for label, command in COMMANDS.items():
            times = [seconds(folder, *command) for _ in range(arguments.calls)]
            print(f"{label}\t{statistics.median(times):.2f}\t{min(times):.2f}\t{max(times):.2f}")


if __name__ == "__main__":
    main()
