"""A server of known step times, whose streams are all that a fit sees, and what it then predicts of other rates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from specbench.planning.machine import UNKNOWN
from specbench.planning.shape import STAND_IN
from specbench.planning.simulator.open_loop import METRICS, STATISTICS, observed, predict, serve
from specbench.planning.simulator.seen_steps import seen_steps
from specbench.replay.records import RequestTrace
from specbench.speculation import BASELINE, Speculation
from specbench.store.measurement import Cell, Measurement

STEP, SEQUENCE, TOKEN, OUTSIDE = 0.02, 0.002, 2e-4, 0.004
"""Seconds of a step, of each sequence in it, of each token that is computed, and of the way to the server."""
BATCH = 8


def trace(index: int, due: float, prompt: int, times: Sequence[float], tokens: Sequence[int]) -> RequestTrace:
    return RequestTrace(
        index, str(index), None, due, due, times[-1] + 1e-4, tuple(times), tuple(tokens), prompt, sum(tokens),
        None, None, "", "length", None, None, None,
    )  # fmt: skip


def known_server(rate: float, gamma: int = 0, kept: float = 0.6, requests: int = 150, seed: int = 0) -> Measurement:
    """Poisson arrivals at a server that batches continuously; each drafted token is kept with the chance `kept`."""
    random = np.random.default_rng(seed)
    due = np.cumsum(random.exponential(1 / rate, requests))
    prompts, outputs = random.integers(20, 200, requests), random.integers(10, 60, requests)
    chunks: list[list[tuple[float, int]]] = [[] for _ in range(requests)]
    queue, running, now = list(range(requests)), list[int](), 0.0
    while queue or running:
        if not running:
            now = max(now, due[queue[0]] + OUTSIDE)
        new = [i for i in queue[: BATCH - len(running)] if due[i] + OUTSIDE <= now]
        queue = queue[len(new) :]
        computed = len(running) * (1 + gamma) + prompts[new].sum()
        now += STEP + SEQUENCE * (len(running) + len(new)) + TOKEN * computed
        for i in running:
            accepted = int(np.cumprod(random.random(gamma) < kept).sum())
            chunks[i].append((now, min(accepted + 1, outputs[i] - sum(n for _, n in chunks[i]))))
        for i in new:
            chunks[i].append((now, 1))
        running = [i for i in [*running, *new] if sum(n for _, n in chunks[i]) < outputs[i]]
    traces = (trace(i, due[i], int(prompts[i]), *zip(*chunks[i], strict=True)) for i in range(requests))
    speculation = Speculation("ngram", gamma) if gamma else BASELINE
    cell = Cell("vllm", "demo", "chat", speculation, BATCH, 0.0, rate)
    return Measurement(f"{cell.id}-r0k0", "one", cell, 0, 0, "ok", "", traces=tuple(traces))


def test_gaps_between_chunks_are_steps_of_the_batch() -> None:
    """The second request's prompt is read in the step that gives the first its third token."""
    first = trace(0, 0.0, 10, [0.1, 0.2, 0.4, 0.55], [1, 1, 3, 1])
    second = trace(1, 0.15, 30, [0.4, 0.55], [1, 1])
    steps = seen_steps([first, second], gamma=2)
    gaps = ~steps.outside
    assert steps.seconds[gaps] == pytest.approx([0.1, 0.2, 0.15, 0.15])
    assert steps.sequences[gaps].tolist() == [1, 1, 2, 2]
    assert steps.prompt_tokens[gaps].tolist() == [0, 30, 0, 0]
    assert steps.cached[gaps].tolist() == [11, 12, 10 + 5 + 30 + 1, 10 + 5 + 30 + 1]
    assert steps.weight[gaps].tolist() == [1, 1, 0.5, 0.5]
    assert steps.seconds[steps.outside] == pytest.approx([0.1]), "the second did not have the server for itself"


def test_a_fit_to_some_rates_predicts_the_others() -> None:
    """Seed by seed other requests, so that nothing of the held-out ones is known."""
    rates = (0.5, 1.5, 2.5)
    loops = [known_server(r, gamma, seed=k) for k, r in enumerate(rates) for gamma in (0, 2)]
    served = serve(loops, STAND_IN, UNKNOWN)
    assert served.outside == pytest.approx(OUTSIDE, rel=0.5)
    for gamma in (0, 2):
        loop = known_server(2.0, gamma, requests=300, seed=9)
        predicted, seen = predict(served, loop), observed(loop)
        assert set(predicted) == {f"{metric}_{statistic}" for metric in METRICS for statistic in STATISTICS}
        for name, (value, low, high) in seen.items():
            assert low <= value <= high
            assert predicted[name] == pytest.approx(value, rel=0.06) or low <= predicted[name] <= high, name


def test_acceptance_is_read_from_the_sizes_of_chunks() -> None:
    served = serve([known_server(1.0, 0), known_server(1.0, 2, kept=0.7)], STAND_IN, UNKNOWN)
    its = served.acceptance["ngram"]
    assert 1 / (1 + np.exp(-its.first)) == pytest.approx(0.7, abs=0.02)
    assert 1 / (1 + np.exp(-its.later)) == pytest.approx(0.7, abs=0.02)
    assert its.spread < 0.25
