"""From a launch to TensorRT-LLM's configuration file: what its command line cannot say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from specbench.backends.base import Launch
from specbench.backends.tensorrt_llm_schema import check_configuration
from specbench.backends.tensorrt_llm_version import Grammar
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.schedule import Schedule
from specbench.speculation import Speculation

_NO_OVERLAP = {
    Grammar.UNTIL_1_2: frozenset({"ngram", "draft_model"}),
    Grammar.SINCE_1_3: frozenset({"ngram"}),
}
"""Methods that the engine, or its rejection sampling, does without the overlap scheduler: it runs on the baseline."""

_ONE_MODEL = {
    Grammar.UNTIL_1_2: frozenset({"eagle3", "mtp"}),
    Grammar.SINCE_1_3: frozenset({"eagle3", "mtp", "draft_model", "suffix"}),
}
"""Methods whose drafter is a part of the target's own pass; elsewhere sampling needs no permission."""

_SETTING = re.compile(r"([a-z]\w*(?:\.\w+)*)=(.*)", re.DOTALL)

_SWITCHES_OFF = "it would switch speculation off in the middle of a measurement; leave it out"
_OWNED = {
    "model": "use --target",
    "backend": "specbench drives the pytorch backend alone",
    "tensor_parallel_size": "use --tensor-parallel",
    "max_batch_size": "use --batch-size",
    "max_seq_len": "use --max-model-len",
    "dtype": "use --dtype",
    "enable_iter_perf_stats": "acceptance is read from it; leave it out",
    "return_perf_metrics": "it would take the iteration statistics away; leave it out",
    "disable_overlap_scheduler": "it is the same in all arms; --baseline as-deployed leaves it to the engine",
    "cuda_graph_config": "it is the same in all arms; --baseline as-deployed leaves it to the engine",
    "kv_cache_config.enable_block_reuse": "use --prefix-caching",
    "kv_cache_config.free_gpu_memory_fraction": "use --memory-fraction",
    "kv_cache_config.max_gpu_total_bytes": "use --kv-cache",
    "speculative_config": "give its fields one by one, as in speculative_config.max_matching_ngram_size=3",
    "speculative_config.decoding_type": "use --method",
    "speculative_config.max_draft_len": "use --gamma",
    "speculative_config.max_total_draft_tokens": "use --gamma",
    "speculative_config.num_nextn_predict_layers": "use --gamma",
    "speculative_config.speculative_model": "use --drafter",
    "speculative_config.speculative_model_dir": "use --drafter",
    "speculative_config.draft_len_schedule": "use --gamma schedule:1=4+5=2, which is right in both grammars",
    "speculative_config.max_concurrency": _SWITCHES_OFF,
    "speculative_config.acceptance_window": _SWITCHES_OFF,
    "speculative_config.acceptance_length_threshold": _SWITCHES_OFF,
    "speculative_config.acceptance_rate_window_size": _SWITCHES_OFF,
    "speculative_config.acceptance_rate_threshold": _SWITCHES_OFF,
}
"""Settings that are not to be given by hand, and what to do instead."""


def is_setting(word: str) -> bool:
    """Whether a word of --engine-arg belongs into the file (`moe_config.backend=TRTLLM`), not on the command line."""
    return _SETTING.fullmatch(word) is not None


def configuration(launch: Launch, grammar: Grammar) -> dict[str, Any]:
    """The content of the file, checked. Raises SpecbenchError for what this version would not take."""
    settings: dict[str, Any] = {
        "dtype": launch.dtype,
        "enable_iter_perf_stats": True,  # without it /metrics stays empty
        "kv_cache_config": _kv_cache(launch),
    }
    if launch.matched:
        settings |= {
            "cuda_graph_config": {"enable_padding": True, "max_batch_size": launch.max_batch_size},
            "disable_overlap_scheduler": not overlaps(launch, grammar),
        }
    if not launch.speculation.is_plain:
        settings["speculative_config"] = speculative_config(launch.speculation, launch.max_batch_size, grammar)
    _add(settings, filter(is_setting, launch.options.engine_args))
    check_configuration(settings, grammar)
    return settings


def overlaps(launch: Launch, grammar: Grammar) -> bool:
    """Whether every arm of the sweep can run with the overlap scheduler: in matched arms all do, or none."""
    return not _NO_OVERLAP[grammar] & {launch.speculation.method, *launch.methods}


def speculative_config(speculation: Speculation, max_batch_size: int, grammar: Grammar) -> dict[str, Any]:
    """The method, in the words of a grammar."""
    new = grammar is Grammar.SINCE_1_3
    gamma = speculation.gamma
    config: dict[str, Any]
    match speculation.method:
        case "ngram":
            # A pool that all requests share would hold the answers of the last repeat.
            config = {"decoding_type": "NGram", "max_matching_ngram_size": 4, "is_public_pool": False}
        case "suffix" if new:
            config = {"decoding_type": "SA"}
        case "mtp":
            # The older name of gamma, and both since: some versions of 1.3 read the one, some the other.
            config = {"decoding_type": "MTP", "num_nextn_predict_layers": gamma}
        case "eagle3" if new:  # which lost the field eagle3_one_model on the way
            config = {"decoding_type": "Eagle3"}
        case "eagle3":
            config = {"decoding_type": "Eagle", "eagle3_one_model": True}
        case "draft_model":
            config = {"decoding_type": "Draft_Target" if new else "DraftTarget"}
        case _:
            raise UnsupportedSpeculation(
                f"TensorRT-LLM {grammar.value} does not run {speculation.method}. Nearest: --method ngram."
            )
    config["max_draft_len"] = gamma
    if speculation.drafter is not None:
        config["speculative_model_dir"] = speculation.drafter
    if speculation.method in _ONE_MODEL[grammar]:
        config["allow_advanced_sampling"] = True  # or every temperature is served greedily
    if speculation.schedule is not None:
        config["draft_len_schedule"] = _schedule(speculation, max_batch_size, grammar)
    return config


def _schedule(speculation: Speculation, max_batch_size: int, grammar: Grammar) -> dict[int, int]:
    schedule = Schedule.parse(speculation.schedule or "")
    if schedule.at(1) != schedule.largest:
        raise UnsupportedSpeculation(
            f"TensorRT-LLM takes schedules that begin with their largest gamma; got {schedule}. Measure its gammas one "
            "by one."
        )
    if grammar is Grammar.UNTIL_1_2:
        if speculation.method in _ONE_MODEL[grammar]:
            raise UnsupportedSpeculation(
                f"TensorRT-LLM 1.2 runs {speculation.method} with one gamma for all batch sizes: --gamma 4."
            )
        return dict(schedule.steps)
    largest_batches = {last: gamma for _, last, gamma in schedule.ranges(max_batch_size)}
    while largest_batches[max(largest_batches)] == 0:  # above the last one speculation is off by itself
        del largest_batches[max(largest_batches)]
    return largest_batches


def _kv_cache(launch: Launch) -> dict[str, Any]:
    """memory_fraction: of what is free once the weights are loaded, unlike in other engines."""
    options = launch.options
    cache: dict[str, Any] = {}
    if launch.matched:
        cache["enable_block_reuse"] = options.prefix_caching
    if options.memory_fraction is not None:
        cache["free_gpu_memory_fraction"] = options.memory_fraction
    if options.kv_cache_bytes is not None:
        cache["max_gpu_total_bytes"] = options.kv_cache_bytes
    return cache


def _add(settings: dict[str, Any], words: Iterable[str]) -> None:
    """What the user adds, by dotted names."""
    for word in words:
        found = _SETTING.fullmatch(word)
        assert found is not None
        name, written = found[1], found[2]
        if name in _OWNED:
            raise SpecbenchError(f"--engine-arg {name}: {_OWNED[name]}.")
        *parents, last = name.split(".")
        if parents[:1] == ["speculative_config"] and "speculative_config" not in settings:
            continue  # the baseline has none
        place = settings
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise SpecbenchError(f"--engine-arg {name}: {parent} is no group of settings.")
        place[last] = _value(name, written)


def _value(name: str, written: str) -> Any:
    try:
        return yaml.safe_load(written)
    except yaml.YAMLError:
        raise SpecbenchError(f"--engine-arg {name}: {written!r} is no YAML value.") from None


def as_yaml(settings: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(settings), sort_keys=False)
