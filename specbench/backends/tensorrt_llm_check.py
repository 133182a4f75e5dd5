"""Whether an installed TensorRT-LLM takes the configurations that specbench writes: its own classes read them.

In a process of its own: importing the engine takes a minute, and may fail where there is no GPU.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specbench.backends.base import EngineOptions, Launch
from specbench.backends.tensorrt_llm import TensorrtLlmBackend
from specbench.backends.tensorrt_llm_settings import configuration
from specbench.backends.tensorrt_llm_version import Grammar
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.speculation import DRAFTERLESS, Speculation

TIMEOUT_SECONDS = 300.0

_MARK = "SPECBENCH "
_SCRIPT = f"""
import json, sys
from tensorrt_llm.llmapi import llm_args
found = {{}}
for name, settings in json.load(sys.stdin).items():
    try:
        given = {{"model": "specbench/check", "backend": "pytorch"}}
        llm_args.TorchLlmArgs(**llm_args.update_llm_args_with_extra_dict(given, settings))
    except Exception as error:
        found[name] = f"{{type(error).__name__}}: {{error}}"
print({_MARK!r} + json.dumps(found))
"""
"""What `trtllm-serve` does with its file, as far as it goes without a model."""


def configurations(version: str) -> dict[str, dict[str, Any]]:
    """By method, those that this version is said to run."""
    found = {}
    for method in TensorrtLlmBackend.methods:
        speculation = (
            Speculation("none")
            if method == "none"
            else Speculation(method, 4, None if method in DRAFTERLESS else "/head")
        )
        launch = Launch(
            Path("/target"),
            "target",
            speculation,
            8,
            2048,
            "bfloat16",
            "cuda",
            methods=(method,),
            options=EngineOptions(),
        )
        try:
            found[method] = configuration(launch, Grammar.of(version))
        except UnsupportedSpeculation:
            continue
    return found


def refused_by_engine(python: Path, version: str) -> Mapping[str, str]:
    """The engine's own words by method, for those it refuses. Raises SpecbenchError where it cannot be asked."""
    try:
        asked = subprocess.run(
            [str(python), "-c", _SCRIPT],
            input=json.dumps(configurations(version)),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise SpecbenchError(f"importing it took more than {TIMEOUT_SECONDS:g} s.") from None
    for line in asked.stdout.splitlines():
        if line.startswith(_MARK):
            refused: dict[str, str] = json.loads(line.removeprefix(_MARK))
            return refused
    *_, last = ["it said nothing", *asked.stderr.strip().splitlines()]
    raise SpecbenchError(f"it cannot be imported here ({last}).")
