"""Does the gate judge real runs rightly? The reference decoder against itself, and against itself slowed on purpose.

    python benchmarks/gate_on_reference.py --output DIR [--launches 8] [--pairs 16] [--slowdown 0.10] [--json FILE]

Plain decoding and n-gram at batch 1. Two stored runs of the same, and the same with two launches, which are too few to
tell. Then a session of `specbench gate --interleave`, in whose second side every speculative step is made longer by a
share of its own time, inside the server. A gate that works exits with 0, 4 and 3. Runs in DIR are used again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from specbench.sweep.manifest import describe_hardware

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "ci" / "reference.yaml"

SHORT = {"prompts": 4, "max_tokens": 32}
"""In a session, so that the two sides of a pair are near in time: what a shared machine loses to others cancels."""

MARK = "--kernels=off"
"""An argument of B's server that changes nothing, and tells it from A's."""

SLOWER = """
import sys

if "specbench.decoder.server" in sys.orig_argv and "{mark}" in sys.orig_argv:
    if sys.orig_argv[sys.orig_argv.index("--method") + 1] != "none":
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
"""Python runs a sitecustomize.py on its path at every start; this one touches nothing but B's speculative decoder."""


def interleaved(place: Path, pairs: int, slowdown: float) -> dict[str, Any]:
    """What the gate says of A and B measured in turns, with the slowdown in B's speculative servers."""
    place.mkdir(parents=True)
    a, b = place / "a.yaml", place / "b.yaml"
    config = {**yaml.safe_load(CONFIG.read_text("utf-8")), **SHORT}
    a.write_text(json.dumps(config), encoding="utf-8")
    b.write_text(json.dumps({**config, "engine_arg": [MARK]}), encoding="utf-8")
    (place / "sitecustomize.py").write_text(SLOWER.format(mark=MARK, share=slowdown), encoding="utf-8")
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH"))))}
    how = ("--interleave", a, b, "--max-replicates", pairs, "--output", place / "runs")
    return gate(*how, "--metric", "output_tokens_per_s", junit=place / "gate.xml", env=env)


def stored(baseline: Path, candidate: Path) -> dict[str, Any]:
    how = ("--baseline", baseline, "--candidate", candidate)
    return gate(*how, "--metric", "speedup", junit=candidate / "gate.xml")


def sweep(run: Path, launches: int) -> Path:
    how = ("--resume",) if run.exists() else ("--config", CONFIG, "--replicates", launches)
    specbench("sweep", *how, "--output", run, "--quiet")
    return run


def gate(*arguments: object, junit: Path, **how: Any) -> dict[str, Any]:
    done = specbench(
        "gate", *arguments, "--require-equivalence", "--json", "--quiet", "--junit", junit, check=False, **how
    )
    said = json.loads(done.stdout)
    keys = ("cell", "about", "outcome", "change", "low", "high", "p_regression", "replicates")
    findings = [{key: finding[key] for key in keys} for finding in said["findings"]]
    return {"exit_code": done.returncode, "verdict": said["verdict"], "findings": findings}


def specbench(*arguments: object, check: bool = True, **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specbench", *map(str, arguments)],
        cwd=ROOT, check=check, text=True, stdout=subprocess.PIPE, **how,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Does the gate judge real runs of the reference decoder rightly?")
    parser.add_argument("--launches", type=int, default=8, help="of each arm of a stored run")
    parser.add_argument("--pairs", type=int, default=16, help="at most, in the session")
    parser.add_argument("--slowdown", type=float, default=0.10, help="share of a speculative step's own time")
    parser.add_argument("--output", type=Path, required=True, help="directory for the runs")
    parser.add_argument("--json", type=Path, help="write the result there")
    options = parser.parse_args()
    out = options.output
    first, again, few = (
        sweep(out / "a", options.launches),
        sweep(out / "again", options.launches),
        sweep(out / "few", 2),
    )
    slower = f"speculative steps {options.slowdown:.0%} longer, in turns"
    gates = {
        "the same, stored runs": stored(first, again),
        "the same, two launches": stored(first, few),
        slower: interleaved(out / "slower", options.pairs, options.slowdown),
    }
    for name, said in gates.items():
        print(f"{name}: {said['verdict']}, exit code {said['exit_code']}")
        for finding in said["findings"]:
            print("  ", *finding.values(), sep="\t")
    if options.json:
        result = {"machine": describe_hardware()["kind"], "slowdown": options.slowdown, "gates": gates}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
