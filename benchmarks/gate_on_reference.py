"""Does the gate judge real runs rightly? The reference decoder against itself, and against itself slowed on purpose.

    python benchmarks/gate_on_reference.py [--replicates 8] [--slowdown 0.10] [--output DIR] [--json FILE]

Three runs of `specbench sweep` (one cell: n-gram, batch 1): A; A again; A with every speculative step made longer by a
share of its own time, inside the server. Then `specbench gate` of the second and the third against the first, and of a
run of two replicates, which are too few to tell. A gate that works exits with 0, 3 and 4.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "ci" / "reference.yaml"

SLOWER = """
import sys

if "specbench.decoder.server" in sys.orig_argv and sys.orig_argv[sys.orig_argv.index("--method") + 1] != "none":
    import time

    from specbench.decoder.engine import Engine

    advance = Engine._advance

    def slower(engine):
        began = time.perf_counter()
        outputs = advance(engine)
        time.sleep({share} * (time.perf_counter() - began))
        return outputs

    Engine._advance = slower
"""
"""Python runs a sitecustomize.py on its path at every start; this one touches nothing but a speculative decoder."""


def sweep(run: Path, replicates: int, slowdown: float = 0) -> Path:
    """Measure one run, with the slowdown injected into its speculative servers."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "sitecustomize.py").write_text(SLOWER.format(share=slowdown), encoding="utf-8")
        paths = os.pathsep.join(filter(None, (place, os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "PYTHONPATH": paths} if slowdown else None
        specbench("sweep", "--config", CONFIG, "--replicates", replicates, "--output", run, "--quiet", env=env)
    return run


def gate(baseline: Path, candidate: Path) -> dict[str, Any]:
    """What the gate says of two runs."""
    junit = candidate / "gate.xml"
    done = specbench(
        *("gate", "--baseline", baseline, "--candidate", candidate, "--require-equivalence", "--json"),
        *("--metric", "speedup", "--junit", junit),
        check=False,
    )
    said = json.loads(done.stdout)
    return {
        "exit_code": done.returncode,
        "verdict": said["verdict"],
        "findings": [
            {key: finding[key] for key in ("cell", "about", "outcome", "change", "low", "high", "p_regression")}
            for finding in said["findings"]
        ],
    }


def specbench(*arguments: object, check: bool = True, **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specbench", *map(str, arguments)],
        cwd=ROOT, check=check, text=True, stdout=subprocess.PIPE, **how,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Does the gate judge real runs of the reference decoder rightly?")
    parser.add_argument("--replicates", type=int, default=8, help="launches per arm of each run")
    parser.add_argument("--slowdown", type=float, default=0.10, help="share of a speculative step's own time")
    parser.add_argument("--output", type=Path, required=True, help="directory for the runs")
    parser.add_argument("--json", type=Path, help="write the result there")
    options = parser.parse_args()
    first = sweep(options.output / "a", options.replicates)
    runs = {
        "the same again": sweep(options.output / "a-again", options.replicates),
        f"speculative steps {options.slowdown:.0%} longer": sweep(
            options.output / "slower", options.replicates, options.slowdown
        ),
        "the same again, two replicates": sweep(options.output / "a-short", 2),
    }
    verdicts = {name: gate(first, run) for name, run in runs.items()}
    for name, said in verdicts.items():
        print(f"{name}: {said['verdict']}, exit code {said['exit_code']}")
        for finding in said["findings"]:
            print("  ", *finding.values(), sep="\t")
    if options.json:
        machine = json.loads((first / "manifest.json").read_text("utf-8"))["hardware"]["kind"]
        result = {"machine": machine, "replicates": options.replicates, "slowdown": options.slowdown}
        options.json.write_text(json.dumps({**result, "gates": verdicts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
