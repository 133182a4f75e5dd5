"""Two servers side by side: what is not alike in them, or not known to be, stands beside every figure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from specbench.backends.attach.backend import AttachBackend, find
from specbench.backends.attach.engines import SGLANG_SERVER, TENSORRT_LLM_SERVER, VLLM_SERVER
from specbench.backends.attach.evidence import Evidence
from specbench.backends.base import Launch
from specbench.speculation import Speculation
from specbench.telemetry.prometheus import parse

ARM = Speculation("eagle3", 3, attached=True)
METRICS = """\
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total 0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="%s"} 1
"""
SPECULATES = "# TYPE vllm:spec_decode_num_drafts counter\nvllm:spec_decode_num_drafts_total 0\n"


def vllm(speculative: Mapping[str, Any] | None = None, **model: Any) -> dict[str, Any]:
    """A vLLM in development mode. model: settings of the model other than the usual"""
    config = {
        "scheduler_config": {"max_num_seqs": 8, "async_scheduling": True},
        "model_config": {"max_model_len": 4096, "dtype": "bfloat16", "quantization": None, **model},
        "parallel_config": {"tensor_parallel_size": 1},
        "cache_config": {"enable_prefix_caching": True, "kv_cache_size_tokens": 6400},
        "speculative_config": speculative,
    }
    models = {"data": [{"id": "m", "owned_by": "vllm"}]}
    return {"/v1/models": models, "/version": {"version": "0.33.0"}, "/server_info": {"vllm_config": config}}


def vllm_outside_development(caching: str, *, speculates: bool) -> dict[str, Any]:
    models = {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]}
    metrics = METRICS % caching + (SPECULATES if speculates else "")
    return {"/v1/models": models, "/version": {"version": "0.33.0"}, "/metrics": metrics}


def sglang(limit: int, asked: int | None, **settings: Any) -> dict[str, Any]:
    info = {
        "version": "0.5.23",
        "context_length": None,
        "disable_radix_cache": True,
        "dtype": "bfloat16",
        "quantization": None,
        "tp_size": 1,
        "max_running_requests": asked,
        "internal_states": [{"effective_max_running_requests_per_dp": limit}],
        **settings,
    }
    return {"/v1/models": {"data": [{"id": "m", "owned_by": "sglang"}]}, "/server_info": info}


async def differences(fake: Any, speculative: Mapping[str, Any], plain: Mapping[str, Any]) -> tuple[str, ...]:
    """What is read back from the speculative one, beside the other."""
    baseline, server = await find(await fake(plain)), await find(await fake(speculative))
    backend = AttachBackend(baseline, server)
    beside_itself = await backend.read_back(baseline.url, Launch(Path("m"), "m"))
    assert beside_itself.differences == ()
    return (await backend.read_back(server.url, Launch(Path("m"), "m", ARM))).differences


EAGLE = {"method": "eagle3", "num_speculative_tokens": 3}


async def test_vllm_servers_that_are_alike_have_nothing_to_tell(fake: Any) -> None:
    assert await differences(fake, vllm(EAGLE), vllm()) == ()


async def test_a_quantization_on_one_side_alone_is_a_difference(fake: Any) -> None:
    """The other tells it too: it has none."""
    [found] = await differences(fake, vllm(EAGLE, quantization="fp8"), vllm())
    assert found == "quantization is 'fp8', on the baseline's server None"


async def test_what_vllm_does_not_tell_without_development_mode_is_named(fake: Any) -> None:
    speculates, plain = (vllm_outside_development("True", speculates=s) for s in (True, False))
    [unknown] = await differences(fake, speculates, plain)
    assert unknown == (
        "a server does not tell async_scheduling, dtype, max_num_seqs, quantization, tensor_parallel_size, so whether "
        "both have the same is not known"
    )
    caching, _ = await differences(fake, speculates, vllm_outside_development("False", speculates=False))
    assert caching == "enable_prefix_caching is True, on the baseline's server False"


async def test_a_server_in_development_mode_beside_one_that_is_not(fake: Any) -> None:
    [unknown] = await differences(fake, vllm(EAGLE), vllm_outside_development("True", speculates=False))
    assert unknown.startswith("a server does not tell async_scheduling, block_size, cache_dtype, dtype,")


async def test_sglang_is_compared_by_the_limit_that_it_keeps_to(fake: Any) -> None:
    """Speculation fills the setting in, plain decoding leaves it None: neither says how many run together."""
    speculates = {"speculative_algorithm": "EAGLE3", "speculative_num_steps": 3}
    assert await differences(fake, sglang(48, 48, **speculates), sglang(48, None)) == ()
    [found] = await differences(fake, sglang(48, 48, **speculates), sglang(4096, None))
    assert found == "running requests at most is 48, on the baseline's server 4096"
    [found] = await differences(fake, sglang(48, 48, **speculates, context_length=8192), sglang(48, None))
    assert found == "context_length is 8192, on the baseline's server None"


async def test_servers_that_tell_nothing_are_not_known_to_be_alike(fake: Any) -> None:
    silent = {"/v1/models": {"data": [{"id": "m", "owned_by": "somebody"}]}}
    [found] = await differences(fake, silent, silent)
    assert found == "a server does not tell its settings, so whether both have the same is not known"


async def test_a_tensorrt_llm_behind_a_gateway_keeps_its_metrics(fake: Any) -> None:
    """Each iteration goes to one reader: they are somebody's, also where the gateway puts its own name on the model."""
    for owner in ("tensorrt_llm", "gateway"):
        url = await fake(
            {
                "/v1/models": {"data": [{"id": "m", "owned_by": owner}]},
                "/server_info": {"disaggregated_params": {} if owner == "gateway" else None},
                "/metrics": [{"iter": 1}],
            }
        )
        found = await find(url)
        assert found.engine is TENSORRT_LLM_SERVER
        backend = AttachBackend(None, found)
        async with backend.probe(url) as probe:
            pass
        assert probe.counters is None
    assert "/metrics" not in fake.asked


@pytest.mark.parametrize(("method", "reset", "clean"), [("ngram", False, False), ("ngram", True, True)])
def test_sglang_remembers_answers_until_it_is_reset(method: str, reset: bool, clean: bool) -> None:
    assert (SGLANG_SERVER.remembers(method, Evidence(), reset) is None) is clean
    assert SGLANG_SERVER.remembers("eagle3", Evidence(), reset) is None


def test_vllm_remembers_answers_for_suffix_drafts_unless_it_is_told_to_keep_none() -> None:
    for kept, clean in ((10_000, False), (0, True)):
        config = {"speculative_config": {"method": "suffix", "suffix_decoding_max_cached_requests": kept}}
        told = Evidence(server_info={"vllm_config": config})
        assert (VLLM_SERVER.remembers("suffix", told, True) is None) is clean
    assert VLLM_SERVER.remembers("suffix", Evidence(metrics=parse(SPECULATES)), True) is not None
    assert VLLM_SERVER.remembers("eagle3", Evidence(), False) is None
