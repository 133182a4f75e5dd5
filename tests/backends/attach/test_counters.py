"""Counters around a measurement of a server that was not started here, and caches that are emptied first or not."""

from __future__ import annotations

from typing import Any

import pytest

from specbench.access import DIRECT, Access
from specbench.backends import counter_probe, sglang_counters
from specbench.backends.attach.counters import count
from specbench.backends.attach.engines import OTHER, SGLANG_SERVER, VLLM_SERVER
from specbench.errors import SpecbenchError

KEY = "sk-0123456789"
VLLM_METRICS = "# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total 5\n"


async def test_vllm_without_development_mode_does_not_pass_for_emptied(fake: Any) -> None:
    """Whoever passes --allow-reset counts on it."""
    url = await fake({"/metrics": VLLM_METRICS})
    with pytest.raises(SpecbenchError, match=r"reset_prefix_cache answers 404.*VLLM_SERVER_DEV_MODE=1"):
        async with count(url, DIRECT, VLLM_SERVER, reset=True):
            pytest.fail("measured all the same")
    async with count(url, DIRECT, VLLM_SERVER, reset=False) as probe:
        pass
    assert probe.counters is not None
    assert probe.counters.generated_tokens == 0


async def test_sglang_that_stays_busy_does_not_pass_for_emptied(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sglang_counters, "FLUSH_SECONDS", 0.3)
    url = await fake({"/flush_cache": 400})
    with pytest.raises(SpecbenchError, match=r"does not empty its cache: it answers 400, status 400"):
        async with count(url, DIRECT, SGLANG_SERVER, reset=True):
            pytest.fail("measured all the same")
    assert fake.asked.count("/flush_cache") > 1


@pytest.mark.parametrize("engine", [VLLM_SERVER, SGLANG_SERVER])
async def test_a_server_that_is_not_there_cannot_be_emptied(engine: Any) -> None:
    access = Access({"Authorization": f"Bearer {KEY}"}, (KEY,))
    with pytest.raises(SpecbenchError, match="does not empty its"):
        async with count("http://127.0.0.1:9", access, engine, reset=True):
            pytest.fail("measured all the same")


async def test_one_that_is_emptied_is_measured(fake: Any) -> None:
    url = await fake({"/metrics": VLLM_METRICS, "/reset_prefix_cache": ""})
    async with count(url, DIRECT, VLLM_SERVER, reset=True) as probe:
        pass
    assert probe.counters is not None


async def test_a_server_without_counters_is_measured_without(fake: Any) -> None:
    url = await fake({})
    for engine in (VLLM_SERVER, OTHER):
        async with count(url, DIRECT, engine, reset=False) as probe:
            pass
        assert probe.counters is None
    assert fake.asked == ["/metrics"]  # of the first alone: the other's say nothing that is known here


def test_a_gauge_is_read_whatever_its_labels_are() -> None:
    text = (
        "# TYPE g gauge\n"
        'g{model_name="a model",engine="0"} 0.25\n'
        'g{model_name="b"} 1.5e-01\n'
        "g NaN\n"
        "gg 7\n"
        'h{g="g 9"} 3\n'
    )
    assert counter_probe.largest("g", text) == 0.25
    assert counter_probe.largest("g", "g 0.5\n") == 0.5
    assert counter_probe.largest("x", text) is None
