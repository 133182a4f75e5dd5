"""Complaints of users of other tools, of what a report decides: every test names its thread."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from known_run import NGRAM, measurement, store

from specbench.analysis.summary import summarize
from specbench.errors import SpecbenchError
from specbench.speculation import Speculation
from specbench.sweep.config import SweepConfig
from specbench.sweep.preflight import check_fit
from specbench.telemetry.sample import Sample


class TestDecision:
    """What people cannot decide with figures that are right."""

    def test_vllm_49825_one_table_shows_acceptance_speedup_and_memory_of_every_gamma(self, tmp_path: Path) -> None:
        memory = {2: 6 * 2**30, 4: 7 * 2**30}
        runs = [measurement(replicate=r) for r in range(2)]
        for gamma, size in memory.items():
            telemetry = [Sample(0.5, "gpu0", memory_bytes=size)]
            runs += [
                measurement(Speculation("ngram", gamma), accepted=1, replicate=r, telemetry=telemetry) for r in range(2)
            ]
        rows = {c.gamma: c for c in summarize(store(tmp_path / "run", runs)).cells if c.is_speculative}
        assert {gamma: row.memory_bytes_peak for gamma, row in rows.items()} == memory
        for gamma, row in rows.items():
            assert row.mean_acceptance_length == pytest.approx(2.0)
            assert row.draft_acceptance_rate == pytest.approx(1 / gamma)
            assert row.speedup_ci_low is not None
            assert row.speedup == pytest.approx(0.5 / 0.3, rel=1e-6)

    @pytest.mark.parametrize("thread", ["vllm#32374", "vllm#48627", "vllm#49548"])
    def test_nothing_is_enabled_beyond_the_batch_size_at_which_it_collapses(self, thread: str, tmp_path: Path) -> None:
        """A method that gains at 1 and 8 and halves throughput at 32, where verification no longer comes for free."""
        runs = []
        for batch_size, step in ((1, 0.012), (8, 0.02), (32, 0.08)):
            for r in range(3):
                shape = {"requests": 4 * batch_size, "replicate": r}
                runs.append(measurement(batch_size=batch_size, **shape))
                runs.append(measurement(NGRAM, batch_size, accepted=3, steps=(step * (1 + 0.001 * r),), **shape))
        summary = summarize(store(tmp_path / "run", runs))
        assert (summary.decision.recommendation, summary.decision.up_to_batch_size) == ("ENABLE UP TO BATCH 8", 8)
        (crossing,) = (b.crossing for b in summary.break_even)
        assert crossing.batch_size is not None
        assert 8 < crossing.batch_size < 32

    def test_inference_perf_139_a_million_tokens_cost_what_the_rent_and_the_throughput_say(
        self, tmp_path: Path
    ) -> None:
        """41 tokens in .5 s, two GPUs at 3 an hour."""
        run = [measurement(), measurement(NGRAM, accepted=3)]
        plain, ngram = summarize(store(tmp_path / "run", run, gpu_price=3.0, gpu_count=2)).cells
        assert plain.cost_per_million_output_tokens == pytest.approx(2 * 3.0 / 3600 / (41 / 0.5) * 1e6, rel=1e-6)
        assert ngram.saving_percent == pytest.approx((1 - 0.2 / 0.5) * 100, rel=1e-6)

    def test_sglang_38341_what_does_not_fit_is_refused_before_anything_is_started(self, tmp_path: Path) -> None:
        """A checkpoint larger than the machine's memory; the file is sparse."""
        (tmp_path / "config.json").write_text('{"num_hidden_layers": 32, "torch_dtype": "bfloat16"}')
        with (tmp_path / "model.safetensors").open("wb") as file:
            file.truncate(psutil.virtual_memory().total + 2**30)
        config = SweepConfig(workload=(Path("w.jsonl"),), dtype="bfloat16")
        with pytest.raises(SpecbenchError, match="Quantize them, split them with --tensor-parallel"):
            check_fit(config, config.engine_options(), tmp_path, [], print)
