"""HumanEval (Chen et al., 2021): the beginning of a function as `prompt`, and a `test` that calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.entries import required
from specbench.workloads.reference import Reference


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`. The model goes on from the prompt; `test` defines `check`, which gets the function."""
    tests = f"{required(entry, 'test')}\n\ncheck({required(entry, 'entry_point')})\n"
    return Prompt(
        required(entry, "task_id") if "task_id" in entry else default_id,
        prompt=required(entry, "prompt"),
        reference=Reference((tests,), "code"),
    )
