"""The engines that an attached server may be: how each is known, what it tells, and how it wants to be asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from specbench.access import Access
from specbench.backends import sglang_counters, vllm_counters
from specbench.backends.attach import counters
from specbench.backends.attach.evidence import Evidence
from specbench.backends.base import EngineCounters
from specbench.backends.sglang import running_limit
from specbench.replay.dialect import (
    LLAMA_CPP,
    OPENAI,
    OPENAI_CONTINUOUS,
    SGLANG,
    TENSORRT_LLM,
    VLLM,
    Dialect,
)
from specbench.speculation import METHODS, UNKNOWN
from specbench.telemetry.prometheus import Metrics


@dataclass(frozen=True, slots=True)
class Told:
    """What a server tells of its speculation and settings.

    method: `none`, one of METHODS, UNKNOWN for a name of the engine's own; None where it does not tell
    gamma:  None where it does not tell
    settings: what has to be alike in two servers that are compared, by name; None is a value, what it does not tell is
        missing
    untold: names of what would have to be alike too, and is not told
    """

    method: str | None = None
    gamma: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    untold: tuple[str, ...] = ()
    kv_capacity_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """One kind of server.

    dialects: how to ask it, the most telling way first; servers and gateways refuse what they do not know
    generated, finished, running, kv_usage: its metrics of tokens made, requests ended, requests under way, and of the
        share of the KV cache in use; None where it has none
    reset: empties the prefix cache, or raises SpecbenchError
    remembers: a clause where the method drafts from what earlier requests were answered, whether or not it is `reset`
        before each measurement; None where it does not
    """

    name: str
    is_it: Callable[[Evidence], bool]
    dialects: tuple[Dialect, ...]
    told: Callable[[Evidence], Told] = lambda evidence: Told()
    version: Callable[[Evidence], str | None] = lambda evidence: evidence.version
    generated: str | None = None
    finished: str | None = None
    running: str | None = None
    kv_usage: str | None = None
    reset: Callable[[str, Access], Awaitable[None]] | None = None
    remembers: Callable[[str, Evidence, bool], str | None] = lambda method, evidence, reset: None
    health_path: str = "/v1/models"
    count: Callable[[Metrics, Metrics, float | None], EngineCounters | None] = counters.nothing


_VLLM_SETTINGS = {
    "max_num_seqs": "scheduler_config",
    "max_model_len": "model_config",
    "dtype": "model_config",
    "quantization": "model_config",
    "tensor_parallel_size": "parallel_config",
    "enable_prefix_caching": "cache_config",
    "async_scheduling": "scheduler_config",
}
"""Name -> where it stands."""

_LITERALS = {"True": True, "False": False, "None": None}
"""How labels of a metric write them."""


def _vllm_told(evidence: Evidence) -> Told:
    config = evidence.server_info.get("vllm_config") or {}
    if not config:
        # Without development mode the counters tell: those of speculation exist with it alone, one for each position.
        if not evidence.has_metrics("vllm:"):
            return Told()
        positions = evidence.metrics.get("vllm:spec_decode_num_accepted_tokens_per_pos_total", {})
        gamma = len({dict(labels).get("position") for labels in positions}) or None
        labels_of_cache = dict(next(iter(evidence.metrics.get("vllm:cache_config_info", {})), ()))
        settings = _of(
            {k: _LITERALS.get(v, v) for k, v in labels_of_cache.items()}, *_VLLM_SETTINGS, "cache_dtype", "block_size"
        )
        settings |= next((_of(m, "max_model_len") for m in evidence.models if "max_model_len" in m), {})
        speculates = evidence.has_metrics("vllm:spec_decode_num_drafts")
        method, gamma = (UNKNOWN, gamma) if speculates else ("none", 0)
        return Told(method, gamma, settings, _missing(settings, _VLLM_SETTINGS))
    speculative = _section(config, "speculative_config")
    settings = {k: v for name, where in _VLLM_SETTINGS.items() for k, v in _of(_section(config, where), name).items()}
    capacity = _section(config, "cache_config").get("kv_cache_size_tokens")
    return Told(
        _known(speculative.get("method", "none")),
        speculative.get("num_speculative_tokens", 0),
        settings,
        _missing(settings, _VLLM_SETTINGS),
        int(capacity) if capacity is not None and str(capacity).isdigit() else None,
    )


def _vllm_remembers(method: str, evidence: Evidence, reset: bool) -> str | None:
    config = _section(_section(evidence.server_info, "vllm_config"), "speculative_config")
    if method != "suffix" or config.get("suffix_decoding_max_cached_requests") == 0:
        return None
    return (
        "vLLM looks suffix drafts up in its answers to all earlier requests, those of earlier measurements among them, "
        'and nothing empties that: start it with "suffix_decoding_max_cached_requests": 0'
    )


def _sglang_remembers(method: str, evidence: Evidence, reset: bool) -> str | None:
    if method != "ngram" or reset:
        return None
    return (
        "SGLang looks ngram drafts up in its answers to all earlier requests, those of earlier measurements among "
        "them: --allow-reset empties that before each"
    )


_SGLANG_METHODS = {"eagle3": "eagle3", "eagle": "eagle", "nextn": "mtp", "standalone": "draft_model", "ngram": "ngram"}


def _sglang_told(evidence: Evidence) -> Told:
    info = evidence.server_info
    if not info:
        return Told()
    algorithm = str(info.get("speculative_algorithm") or "").lower()
    drafted = info.get("speculative_num_draft_tokens")
    gamma = info.get("speculative_num_steps") or (drafted - 1 if drafted else None)
    names = ("context_length", "disable_radix_cache", "dtype", "quantization", "tp_size")
    # What it was asked for, `max_running_requests`, may be None or more than what it keeps to.
    limit = running_limit(info)
    settings = {**_of(info, *names), **({} if limit is None else {"running requests at most": limit})}
    return Told(
        _SGLANG_METHODS.get(algorithm, _known(algorithm)) if algorithm else "none",
        gamma if algorithm else 0,
        settings,
        _missing(settings, (*names, "running requests at most")),
        info.get("max_total_num_tokens"),
    )


def _tgi_told(evidence: Evidence) -> Told:
    names = ("max_concurrent_requests", "max_total_tokens", "max_batch_total_tokens", "model_dtype")
    settings = _of(evidence.info, *names)
    return Told(settings=settings, untold=_missing(settings, names))


_LLAMA_CPP_METHODS = {"draft-simple": "draft_model", "draft-eagle3": "eagle3", "draft-mtp": "mtp", "none": "none"}


def _llama_cpp_told(evidence: Evidence) -> Told:
    """/props names a method only in some versions, and `none` where there is one; /slots tells whether there is."""
    generation = _section(evidence.props, "default_generation_settings")
    speculates = next((slot["speculative"] for slot in evidence.slots if "speculative" in slot), None)
    written = str(_section(generation, "params").get("speculative.types", "none")).split(",")[0]
    named = "ngram" if written.startswith("ngram") else _LLAMA_CPP_METHODS.get(written, UNKNOWN)
    method: str | None = named
    if named == "none":
        method = None if speculates is None else UNKNOWN if speculates else "none"
    settings = {**_of(evidence.props, "total_slots"), **_of(generation, "n_ctx")}
    return Told(method, 0 if method == "none" else None, settings, _missing(settings, ("total_slots", "n_ctx")))


def _reference_told(evidence: Evidence) -> Told:
    info = evidence.server_info
    names = ("max_batch_size", "max_model_len", "dtype", "verification", "threads")
    settings = _of(info, *names)
    return Told(
        _known(info.get("method", UNKNOWN)),
        info.get("gamma"),
        settings,
        _missing(settings, names),
        info.get("kv_capacity_tokens"),
    )


VLLM_SERVER = Engine(
    "vLLM",
    lambda e: "vllm" in e.owners or e.has_metrics("vllm:") or "vllm_config" in e.server_info,
    (VLLM, OPENAI_CONTINUOUS, OPENAI),
    _vllm_told,
    generated="vllm:generation_tokens_total",
    finished="vllm:request_success_total",
    running="vllm:num_requests_running",
    kv_usage="vllm:kv_cache_usage_perc",
    reset=vllm_counters.reset_prefix_cache,
    remembers=_vllm_remembers,
    health_path="/health",
    count=vllm_counters.counters_between,
)

SGLANG_SERVER = Engine(
    "SGLang",
    lambda e: "sglang" in e.owners or e.has_metrics("sglang:") or "internal_states" in e.server_info,
    (SGLANG, OPENAI_CONTINUOUS, OPENAI),
    _sglang_told,
    lambda e: e.server_info.get("version") or e.version,
    generated="sglang:generation_tokens_total",
    finished="sglang:num_requests_total",
    running="sglang:num_running_reqs",
    kv_usage="sglang:token_usage",
    reset=sglang_counters.flush,
    remembers=_sglang_remembers,
    count=sglang_counters.counters_between,
)

TENSORRT_LLM_SERVER = Engine(
    "TensorRT-LLM",
    lambda e: e.is_tensorrt_llm,
    (TENSORRT_LLM, OPENAI),
)
"""It tells nothing of its settings, and whoever reads its /metrics takes them from others: requests tell acceptance."""

TGI = Engine(
    "Text Generation Inference",
    lambda e: e.has_metrics("tgi_") or {"model_id", "router"} <= e.info.keys(),
    (OPENAI,),
    _tgi_told,
    lambda e: e.info.get("version"),
    generated="tgi_request_generated_tokens_sum",
    finished="tgi_request_generated_tokens_count",
    running="tgi_batch_current_size",
    health_path="/health",
    count=counters.tgi,
)

LLAMA_CPP_SERVER = Engine(
    "llama.cpp",
    lambda e: "llamacpp" in e.owners or "llama.cpp" in e.server or e.has_metrics("llamacpp:"),
    (LLAMA_CPP, OPENAI),
    _llama_cpp_told,
    lambda e: e.props.get("build_info"),
    generated="llamacpp:tokens_predicted_total",
    running="llamacpp:requests_processing",
    health_path="/health",
    count=counters.llama_cpp,
)

REFERENCE_SERVER = Engine(
    "specbench reference decoder",
    lambda e: "specbench" in e.owners and "simulated" not in e.server_info,
    (VLLM,),
    _reference_told,
    generated="specbench:generation_tokens_total",
    health_path="/health",
    count=counters.reference,
)

OTHER = Engine("OpenAI-compatible server", lambda e: True, (VLLM, OPENAI_CONTINUOUS, OPENAI))
"""A hosted API, a gateway, an engine that nobody here has met."""

ENGINES = (
    REFERENCE_SERVER,
    VLLM_SERVER,
    SGLANG_SERVER,
    TENSORRT_LLM_SERVER,
    TGI,
    LLAMA_CPP_SERVER,
    OTHER,
)
_SIMULATED = {"vllm": VLLM_SERVER, "sglang": SGLANG_SERVER, "tensorrt_llm": TENSORRT_LLM_SERVER}


def recognise(evidence: Evidence) -> Engine:
    """The engine that the evidence fits; a known-truth server is taken for the engine whose words it speaks."""
    if simulated := _section(evidence.server_info, "simulated"):
        return _SIMULATED[simulated["engine"]]
    return next(engine for engine in ENGINES if engine.is_it(evidence))


def _known(method: str) -> str:
    return method if method in METHODS else UNKNOWN


def _of(settings: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those of the settings that are told."""
    return {name: settings[name] for name in names if name in settings}


def _missing(settings: Mapping[str, Any], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in settings)


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = config.get(name)
    return section if isinstance(section, Mapping) else {}
