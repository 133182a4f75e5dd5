"""Published files are read as they are; skipped where they are not at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specbench.workloads import load_workload
from specbench.workloads.traces import read_trace
from specbench.workloads.traffic_stats import traffic_stats

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the published files are not here")


@pytest.mark.parametrize(
    ("name", "prompts", "turns", "first"),
    [
        ("spec_bench.question.jsonl", 480, 560, "81"),
        ("mt_bench.question.jsonl", 80, 160, "81"),
        ("HumanEval.jsonl.gz", 164, 164, "HumanEval/0"),
        ("gsm8k.test.jsonl", 1319, 1319, "gsm8k.test-1"),
    ],
)
def test_prompts(name: str, prompts: int, turns: int, first: str) -> None:
    found = load_workload(DATA / name).prompts
    assert len(found) == prompts
    assert sum(1 + len(prompt.follow_ups) for prompt in found) == turns
    assert found[0].id == first


@pytest.mark.parametrize(
    ("name", "form", "requests", "rate"),
    [
        ("AzureLLMInferenceTrace_code.csv", "azure", 8819, 2.6),
        ("mooncake.synthetic_trace.jsonl", "mooncake", 3993, 3.9),
    ],
)
def test_traffic(name: str, form: str, requests: int, rate: float) -> None:
    trace = read_trace(DATA / name)
    stats = traffic_stats(trace.traffic)
    assert (trace.format, stats.requests + trace.left_out) == (form, requests)
    assert stats.requests_per_s == pytest.approx(rate, rel=0.05)
    assert (np.diff(trace.traffic.arrival) >= 0).all()
