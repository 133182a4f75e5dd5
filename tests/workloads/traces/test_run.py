"""The requests of an open loop of ours are traffic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from known_run import NGRAM, measurement, store

from specbench.errors import SpecbenchError
from specbench.workloads.traces import read_trace


def test_the_baselines_requests_at_the_highest_rate(tmp_path: Path) -> None:
    def at(rate: float, *args: object):  # type: ignore[no-untyped-def]
        found = measurement(*args)
        cell = replace(found.cell, request_rate=rate)
        traces = tuple(
            replace(t, scheduled=i / rate, prompt_tokens=7 + i, follows={5: 0, 7: 5}.get(i))
            for i, t in enumerate(found.traces)
        )
        return replace(found, id=f"{cell.id}-r0k0", cell=cell, traces=traces)

    store(tmp_path / "run", [at(2.0), at(4.0), at(4.0, NGRAM)])
    trace = read_trace(tmp_path / "run")
    assert trace.format == "run"
    n = len(trace.traffic)
    np.testing.assert_allclose(trace.traffic.arrival, np.arange(n) / 4)
    assert trace.traffic.prompt_tokens.tolist() == list(range(7, 7 + n))
    assert trace.traffic.output_tokens.min() >= 1
    assert trace.traffic.session is not None
    talks = trace.traffic.session.tolist()
    assert talks[0] == talks[5] == talks[7]
    assert len(set(talks)) == n - 2


def test_a_closed_loop_is_no_traffic(tmp_path: Path) -> None:
    store(tmp_path / "run", [measurement()])
    with pytest.raises(SpecbenchError, match=r"holds no open loop.*--request-rate"):
        read_trace(tmp_path / "run")
