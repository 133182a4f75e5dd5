"""What a log admits of a server that did start."""

from __future__ import annotations

import pytest

from specbench.backends.log_notes import log_differences
from specbench.backends.lossy import lossy_log


@pytest.mark.parametrize(
    ("line", "clause"),
    [
        (
            "Disable overlap scheduler for speculation mode NGRAM",
            "overlap_scheduler is off with NGRAM, whatever was asked",
        ),
        ("Overlap scheduler is not supported for this model", "overlap_scheduler is off, whatever was asked"),
        ("Rejection sampling will fallback to greedy sampling.", "drafts are compared with sampled tokens"),
        (
            "Model Runner V2 does not yet support speculative method 'suffix'; using the V1 model runner instead.",
            "suffix runs on vLLM's first model runner",
        ),
        ("Disabling block reuse for FLASHINFER backend", "block reuse is off with attention backend FLASHINFER"),
    ],
)
def test_what_the_engine_changed_by_itself_is_a_difference(line: str, clause: str) -> None:
    (found,) = log_differences(f"[W] something\n[TRT-LLM] [W] {line}\n[W] {line}\n")
    assert found.startswith(clause)


def test_a_quiet_log_tells_nothing() -> None:
    assert log_differences("[TRT-LLM] [I] ready\n") == ()
    assert lossy_log("[TRT-LLM] [I] ready\n", temperature=1.0) == ()
