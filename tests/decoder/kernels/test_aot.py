"""Kernels compile to machine code on a machine without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from specbench.decoder.kernels.aot import TARGETS, kernel_name, launches

RESULT = Path(__file__).parents[3] / "benchmarks" / "results" / "kernels.json"

COMPILE = """
import json, torch
from dataclasses import asdict
from specbench.decoder.kernels.aot import TARGETS, compiled, launches
some = [x for x in launches(8, 3, 8192, torch.bfloat16) if x.kernel.fn.__name__ in ("_add_norm", "_pick")]
print(json.dumps([asdict(compiled(launch, target)) for launch in some for target in TARGETS]))
"""


def test_kernels_compile_for_both_generations_without_spilling(tmp_path: Path) -> None:
    # Where Triton interprets kernels, as in this process, it compiles none.
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert [(c["kernel"], c["capability"]) for c in found] == [
        ("norm.add_norm", 80),
        ("norm.add_norm", 90),
        ("rejection.pick", 80),
        ("rejection.pick", 90),
    ]
    assert all(0 < c["registers"] <= 255 and c["spilled_bytes"] == 0 and c["code_bytes"] > 0 for c in found)


def test_the_committed_result_is_of_the_kernels_that_there_are() -> None:
    compiled = json.loads(RESULT.read_text())["kernels"]
    expected = [(kernel_name(launch), target) for target in TARGETS for launch in launches(8, 3, 8192, torch.bfloat16)]
    assert [(c["kernel"], c["capability"]) for c in compiled] == expected
