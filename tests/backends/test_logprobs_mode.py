"""A launch can ask for log-probabilities of what is sampled from; no other launch mentions them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specbench.backends.base import Backend, EngineOptions, Launch
from specbench.backends.reference import ReferenceBackend
from specbench.backends.vllm import VllmBackend

LAUNCH = Launch(target=Path("/models/t"), target_name="t", options=EngineOptions(python=Path("/env/bin/python")))


@pytest.mark.parametrize(
    ("backend", "mode"),
    [(ReferenceBackend(), "processed"), (VllmBackend(), "processed_logprobs")],
    ids=["reference", "vllm"],
)
def test_only_a_launch_that_wants_processed_log_probabilities_says_so(backend: Backend, mode: str) -> None:
    plain = backend.command(LAUNCH).argv
    asked = backend.command(replace(LAUNCH, logprobs="processed")).argv
    assert "--logprobs-mode" not in plain
    at = asked.index("--logprobs-mode")
    assert asked[at + 1] == mode
    assert (*asked[:at], *asked[at + 2 :]) == plain
