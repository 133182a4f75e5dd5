"""What an engine says of its own time, and of what its passes read."""

from __future__ import annotations

import time

import pytest
import torch

from specbench.backends.reference import counters_between
from specbench.decoder.counters import Counters
from specbench.decoder.gpu_check.engines import make_engine, prompts, run
from specbench.decoder.gpu_check.models import TINY, random_llama
from specbench.decoder.metrics import exposition
from specbench.decoder.sampling import SamplingParams
from specbench.telemetry.prometheus import parse


def test_time_between_results_and_the_next_phase_is_the_hosts_unless_nothing_was_left_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0, 2, 5, 6, 16, 17, 17, 18, 100, 101])
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    counters = Counters([0])
    for phase in ("verify", "accept", "draft", "accept"):  # 0 to 2, 5 to 6, 16 to 17, 17 to 18
        with counters.timed(phase):
            pass
    counters.rest()
    with counters.timed("prefill"):  # 100 to 101
        pass
    assert counters.seconds == {"prefill": 1, "draft": 1, "prepare": 0, "verify": 2, "accept": 2, "host": 10}


def test_passes_read_the_weights_and_what_their_sequences_hold() -> None:
    """Two prompts of 5 tokens; each pass sees the newest token too, so it sees 6, 7 and 8 of each."""
    model = random_llama({**TINY, "tie_word_embeddings": False}, torch.float32, torch.device("cpu"))
    engine = make_engine(model, rows=2, length=16)
    run(engine, prompts(2, 5, TINY["vocab_size"]), SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True))
    assert engine.counters.passes == 3
    weights = model.weights_bytes - model.embeddings.nbytes
    token = 2 * 2 * 2 * 16 * 4  # layers, keys and values, heads of 16 channels, float32
    assert engine.counters.verify_bytes == 3 * weights + 2 * (6 + 7 + 8) * token


def test_a_probe_reads_the_whole_profile_from_the_metrics() -> None:
    engine = make_engine(random_llama(TINY, torch.float32, torch.device("cpu")), "ngram", gamma=2, rows=2, length=24)
    params = SamplingParams(temperature=0.0, max_tokens=6, ignore_eos=True)
    run(engine, prompts(2, 8, TINY["vocab_size"]), params)
    engine.counters.read_bytes_per_s = 2e10
    before, passes = parse(exposition(engine)), engine.counters.passes
    run(engine, prompts(2, 8, TINY["vocab_size"], seed=1), params)
    found = counters_between(before, parse(exposition(engine)))
    assert found is not None
    assert found.passes == engine.counters.passes - passes
    assert found.verify_bytes is not None
    assert found.verify_bytes > found.passes * engine.target.read_bytes
    assert found.read_bytes_per_s == 2e10
    assert found.phase_seconds is not None
    assert {phase for phase, seconds in found.phase_seconds.items() if seconds > 0} == {
        "prefill", "draft", "verify", "accept", "host"
    }  # fmt: skip
