"""Complaints of users of other tools, of prompts and requests: every test names its thread."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_run import NGRAM, codes, measurement, store
from known_sweep import Sweep, eagle3

from specbench.analysis.summary import summarize
from specbench.errors import SpecbenchError
from specbench.sweep.config import SweepConfig
from specbench.sweep.requests import request_order
from specbench.workloads.load import load_workload


class TestWorkload:
    """What is sent decides what is accepted."""

    def test_dynamo_12918_no_request_is_kept_from_ending(self, tmp_path: Path) -> None:
        """Beyond its own end a model babbles, and a drafter finds babble easy or hard, as it may be."""
        path = tmp_path / "w.jsonl"
        path.write_text('{"prompt": "Hello"}\n')
        for spec in request_order(load_workload(path), SweepConfig(workload=(path,)), batch_size=4):
            assert not {"ignore_eos", "min_tokens", "min_new_tokens"} & spec.body("model").keys()
        path.write_text('{"prompt": "Go on", "ignore_eos": true}\n')
        with pytest.raises(SpecbenchError, match="ignore_eos"):
            load_workload(path)

    async def test_tokenspeed_1305_loops_do_not_count_as_acceptance(self, simulated_sweep: Sweep) -> None:
        """A prompt without its template sent a model into a two-token loop: 3.93 tokens per step, 1.94 with it."""
        scenario = {
            "drafting": {"acceptance": {"alpha": 0.5}},
            "output": {"tokens": 300, "degenerate": {"share": 0.5, "period": 2, "alpha": 1.0}},
            "step": {"weights_ms": 0},
        }
        cell = eagle3(await simulated_sweep(scenario, max_tokens=60, requests=60))
        assert 0 < cell.degenerate_requests < cell.requests
        assert cell.mean_acceptance_length == pytest.approx(sum(0.5**k for k in range(5)), rel=0.1)
        assert (cell.stream_mean_acceptance_length or 0) > 1.3 * (cell.mean_acceptance_length or 0)

    def test_model_serving_minefield_108_the_arm_that_loops_is_not_the_fastest(self, tmp_path: Path) -> None:
        """Drafting costs more than it gains but where the model loops: those requests make the arm look faster."""
        loops = {i: (1, 2, 3, *[9] * 38) for i in range(1, 8, 2)}
        base = measurement(outputs=loops)
        arm = measurement(NGRAM, accepted=4, steps=(0.08, 0.01), outputs=loops)
        (row,) = (c for c in summarize(store(tmp_path / "run", [base, arm])).cells if c.is_speculative)
        assert (row.speedup_without_degenerate or 0) < 1 < (row.speedup or 0)
        assert "degenerate_gain" in codes(row)
        assert row.saving_percent is None
