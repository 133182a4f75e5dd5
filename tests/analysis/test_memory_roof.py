"""No engine reads its weights faster than the memory gives them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from known_run import NGRAM, measurement, store

from specbench.analysis.memory_roof import Roof, above_memory_roof
from specbench.analysis.summary import summarize


def manifest(*gpus: str, **config: Any) -> dict[str, Any]:
    return {
        "config": {"device": "cuda", **config},
        "hardware": {"gpus": [{"name": name} for name in gpus]},
        "weight_bytes_per_pass": 14 * 10**9,
    }


@pytest.mark.parametrize(
    ("found", "bandwidth"),
    [
        (manifest("NVIDIA H200"), 4.8e12),
        (manifest("NVIDIA L40S"), 0.864e12),
        (manifest("NVIDIA H200", "NVIDIA H200"), 4.8e12),
        (manifest("NVIDIA H200", "NVIDIA H200", tensor_parallel=2), 9.6e12),
        (manifest("NVIDIA Nonesuch 9000"), None),
        (manifest("NVIDIA H200", "NVIDIA Nonesuch 9000"), None),
        (manifest(), None),
        ({**manifest("NVIDIA H200"), "config": {"device": "cpu"}}, None),
        ({}, None),
    ],
)
def test_the_bandwidth_is_known_or_nothing_is_said(found: dict[str, Any], bandwidth: float | None) -> None:
    assert Roof.from_manifest(found).bandwidth == (None if bandwidth is None else pytest.approx(bandwidth))


@pytest.mark.parametrize(
    ("steps_per_s", "batch_size", "marked"),
    [(340, 1, False), (400, 1, True), (400, 2, False), (340 * 64, 64, False), (400 * 64, 64, True), (None, 1, False)],
)
def test_more_passes_than_the_memory_can_feed_are_impossible(
    steps_per_s: float | None, batch_size: int, marked: bool
) -> None:
    """14 GB of weights at 4.8 TB/s: 343 passes per second."""
    mark = above_memory_roof(steps_per_s, batch_size, Roof(14 * 10**9, 4.8e12))
    assert (mark is not None) is marked


@pytest.mark.parametrize("roof", [Roof(), Roof(14 * 10**9, None), Roof(None, 4.8e12)])
def test_what_is_not_known_is_not_guessed(roof: Roof) -> None:
    assert above_memory_roof(1e9, 1, roof) is None


def test_a_cell_is_judged_by_its_steps_and_not_by_its_tokens(tmp_path: Path) -> None:
    """80 tokens a second plain, 200 in 50 steps with speculation: 4.8 TB/s give 60 passes over 80 GB."""
    arm = measurement(NGRAM, accepted=3)
    silent = replace(
        arm,
        id="silent",
        cell=replace(arm.cell, speculation=replace(NGRAM, gamma=5)),
        traces=tuple(replace(t, acceptance=None) for t in arm.traces),
        counters=None,
    )
    run = store(tmp_path, [measurement(), arm, silent], device="cuda")
    run.manifest.update(weight_bytes_per_pass=80 * 10**9, hardware={"kind": "H200", "gpus": [{"name": "NVIDIA H200"}]})
    plain, told, untold = ({mark.code for mark in cell.marks} for cell in summarize(run).cells)
    assert "above_memory_roof" in plain
    assert "above_memory_roof" not in told
    assert "above_memory_roof" not in untold  # 200 tokens in nobody knows how many steps
