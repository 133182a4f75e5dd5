from __future__ import annotations

import socket

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.telemetry.prometheus import Metrics, any_reset, counter_delta, parse, scrape

TEXT = """\
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="demo"} 640.0
vllm:generation_tokens_total{engine="1",model_name="demo"} 320.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 90.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 40.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 30.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0"} 0.25
"""
TOKENS = "vllm:generation_tokens_total"
POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


def ranks(*values: float, name: str = TOKENS) -> Metrics:
    return {name: {frozenset({("engine", str(rank))}): value for rank, value in enumerate(values)}}


def test_names_with_a_colon_and_labels_are_kept():
    metrics = parse(TEXT)
    assert metrics[TOKENS][frozenset({("engine", "1"), ("model_name", "demo")})] == 320.0
    assert metrics["vllm:kv_cache_usage_perc"] == {frozenset({("engine", "0")}): 0.25}


def test_ranks_are_summed_and_positions_kept_apart():
    delta = counter_delta({}, parse(TEXT), POSITIONS)
    assert delta is not None
    assert delta.total == 160.0
    assert delta.by("position") == {"0": 120.0, "1": 40.0}
    assert delta.by("engine") == {"0": 130.0, "1": 30.0}


def test_what_the_engine_does_not_report_is_none_not_zero():
    assert counter_delta(parse(TEXT), parse(TEXT), "vllm:spec_decode_num_drafts_total") is None


def test_a_counter_that_went_down_is_a_reset():
    delta = counter_delta(ranks(100, 50), ranks(7, 60), TOKENS)
    assert delta is not None
    assert delta.reset
    assert delta.total == 7 + 10


def test_a_counter_that_vanished_is_a_reset():
    for after in (ranks(150), {}):
        delta = counter_delta(ranks(100, 50), after, TOKENS)
        assert delta is not None
        assert delta.reset


def test_a_reset_of_any_counter_is_found_and_a_gauge_that_falls_is_none():
    gauge = {"vllm:kv_cache_usage_perc": {frozenset(): 0.9}}
    before, grown = {**ranks(10), **ranks(5, name=POSITIONS), **gauge}, {**ranks(11), **ranks(5, name=POSITIONS)}
    assert not any_reset(before, {**grown, "vllm:kv_cache_usage_perc": {frozenset(): 0.1}}, "vllm:")
    assert any_reset(before, {**grown, **ranks(4, name=POSITIONS)}, "vllm:")
    assert any_reset(before, ranks(11), "vllm:")
    assert not any_reset(before, ranks(11), "sglang:")


def test_a_label_set_that_is_new_started_at_zero():
    delta = counter_delta(ranks(100), ranks(110, 5), TOKENS)
    assert delta is not None
    assert (delta.total, delta.reset) == (15, False)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1))
def test_counters_that_only_grow_give_what_they_grew_by(counts: list[tuple[int, int]]):
    delta = counter_delta(ranks(*(was for was, _ in counts)), ranks(*(was + grew for was, grew in counts)), TOKENS)
    assert delta is not None
    assert (delta.total, delta.reset) == (sum(grew for _, grew in counts), False)


def test_text_of_another_format_is_refused():
    with pytest.raises(SpecbenchError, match="Prometheus"):
        parse("<html>not here</html>")


async def test_metrics_are_fetched_from_a_running_server():
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=TEXT)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    async with TestServer(app) as server:
        assert await scrape(str(server.make_url("/"))) == parse(TEXT)


async def test_a_server_without_metrics_is_named():
    async with TestServer(web.Application()) as server:
        with pytest.raises(SpecbenchError, match="answered 404"):
            await scrape(str(server.make_url("")))


async def test_a_server_that_is_not_there_is_named():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(SpecbenchError, match="cannot read http"):
            await scrape(f"http://127.0.0.1:{unused.getsockname()[1]}")
