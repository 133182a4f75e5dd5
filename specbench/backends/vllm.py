"""vLLM: the flags of a launch, and what the server made of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import fields
from typing import Any

import aiohttp

from specbench.access import is_secret_name
from specbench.backends.base import Command, EngineOptions, Launch, ResolvedSettings
from specbench.backends.container import PORT, in_container, model_mounts
from specbench.backends.counter_probe import CounterProbe
from specbench.backends.explain import ARTICLE_FLAGS, article_flag, explain
from specbench.backends.launch_checks import (
    check_own_head,
    check_schedule,
    check_verification,
    device_number,
    differing,
    nowhere,
)
from specbench.backends.vllm_counters import count
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.replay.dialect import VLLM, Dialect
from specbench.schedule import Schedule
from specbench.speculation import METHODS, OWN, Speculation
from specbench.telemetry.prometheus import Metrics, scrape

logger = logging.getLogger(__name__)

TESTED = ("0.32", "0.33")
"""Versions whose flags, fields and counters are known."""

SERVER = "vllm.entrypoints.openai.api_server"

# vLLM refuses async scheduling with these, and silently leaves it on for a baseline beside them.
_NO_ASYNC_SCHEDULING = frozenset({"ngram", "suffix", "medusa"})

_OLDER_RUNNER = frozenset({"suffix", "medusa"})
"""What vLLM drafts with on its first model runner alone, while the others' arms run on its second."""

SCHEDULED = frozenset({"ngram", "draft_model", "eagle3", "eagle", "mtp"})
"""Methods whose gamma may follow the batch size: the other proposers of vLLM end with an AssertionError."""

_OWNED = {
    "--model": "--target",
    "--served-model-name": "--target",
    "--port": "nothing, a free one is taken",
    "--host": "nothing, it is the loopback device",
    "--max-num-seqs": "--batch-size",
    "--max-model-len": "--max-model-len",
    "--dtype": "--dtype",
    "--speculative-config": "--method, --drafter and --gamma",
    "--tensor-parallel-size": "--tensor-parallel",
    "-tp": "--tensor-parallel",
    "--device-ids": "--device cuda:N, the first of those it uses, or the variable CUDA_VISIBLE_DEVICES",
    "--quantization": "--quantization",
    "-q": "--quantization",
    "--gpu-memory-utilization": "--memory-fraction",
    "--kv-cache-memory-bytes": "--kv-cache",
    "--logprobs-mode": "nothing, raw log-probabilities unless `specbench verify` needs others",
}
"""vLLM's flags that specbench writes itself, and specbench's own for them."""

CPU_KV_CACHE_BYTES = 2 << 30

GRAPH_TOKENS = 512
"""Above so many tokens in a pass (twice as many on B200 and its like) vLLM captures no CUDA graph by itself."""

_OF_GRAPHS = (
    *("--cudagraph", "--max-cudagraph", "--compilation-config", "-cc", "-O", "--optimization-level"),
    *("--performance-mode", "--enforce-eager"),
)
"""Beginnings of vLLM's flags by which somebody has decided on graphs."""

SETTINGS_S = 120
"""For /server_info, which first asks pip, nvidia-smi and others about the machine."""


class VllmBackend:
    """Translates a launch into vLLM's OpenAI server."""

    name = "vllm"
    methods = tuple(method for method in METHODS if method not in OWN)
    options = frozenset(
        {*(field.name for field in fields(EngineOptions)), "suffix_cached_requests"} - {"scenario", "engine_version"}
    )
    start_seconds = 60.0

    def check(self, speculation: Speculation) -> None:
        if speculation.method not in self.methods:
            raise UnsupportedSpeculation(
                f"vLLM does not run {speculation.method} here. It runs: {', '.join(self.methods)}."
            )
        check_own_head(speculation, "vLLM")
        check_schedule(speculation, "vLLM", SCHEDULED)

    def command(self, launch: Launch) -> Command:
        options = launch.options
        check_verification(launch, "vLLM")
        _check_engine_args(options.engine_args)
        inside = options.container is not None
        arguments = (
            *("-m", SERVER, "--model", str(launch.target), "--served-model-name", launch.target_name),
            *(("--host", "0.0.0.0", "--port", PORT) if inside else ("--host", "127.0.0.1", "--port", "{port}")),
            *shape(launch),
            *_fairness(launch),
            *speculation_flags(launch.speculation, launch.max_batch_size),
            *(("--logprobs-mode", f"{launch.logprobs}_logprobs") if launch.logprobs != "raw" else ()),
            "--enable-per-request-metrics",
            # A model's own sampling defaults (top_k…) would be added to what a request asks for.
            *("--generation-config", "vllm"),
            *options.engine_args,
        )
        env = _environment(launch)
        if options.container is not None:
            return in_container(
                options.container,
                ("python3", *arguments),
                env=env,
                mounts=model_mounts(launch),
                gpus=launch.device != "cpu",
            )
        if options.python is None:
            raise nowhere("vLLM")
        return Command((str(options.python), *arguments), env=env, nice=5 if launch.device == "cpu" else 0)

    def dialect(self, options: EngineOptions) -> Dialect:
        return VLLM

    def explain(self, log: str) -> str | None:
        return explain(log, self.name)

    async def read_back(self, base_url: str, launch: Launch) -> ResolvedSettings:
        async with aiohttp.ClientSession(base_url, timeout=aiohttp.ClientTimeout(total=SETTINGS_S)) as session:
            version = str((await _json(session, "/version"))["version"])
            info = await _json(session, "/server_info?config_format=json")
        if not version.startswith(TESTED):
            logger.warning("vLLM %s is not among the versions that specbench knows (%s)", version, ", ".join(TESTED))
        config: Mapping[str, Any] = info.get("vllm_config") or {}
        cache = config.get("cache_config") or _cache_info(await scrape(base_url))
        capacity = cache.get("kv_cache_size_tokens")
        return ResolvedSettings(
            engine="vLLM",
            version=version,
            raw={name: _scalars(section) for name, section in config.items() if isinstance(section, Mapping)},
            kv_capacity_tokens=None if capacity in (None, "None") else int(capacity),
            differences=tuple(_differences(config, launch)) if config else ("vLLM did not tell its settings",),
        )

    def probe(self, base_url: str) -> AbstractAsyncContextManager[CounterProbe]:
        return count(base_url)


def shape(launch: Launch) -> list[str]:
    """What decides memory and speed, the same in both arms. On CPU, compiling would take a minute of every start."""
    options = launch.options
    flags = [
        *("--max-num-seqs", str(launch.max_batch_size), "--max-model-len", str(launch.max_model_len)),
        *("--dtype", launch.dtype),
    ]
    if launch.device == "cpu":
        flags.append("--enforce-eager")
    if (first := device_number(launch.device)) is not None:
        numbers = range(first, first + options.tensor_parallel)
        flags += ["--device-ids", ",".join(map(str, numbers))]
    if options.tensor_parallel > 1:
        flags += ["--tensor-parallel-size", str(options.tensor_parallel)]
    if options.quantization is not None:
        flags += ["--quantization", options.quantization]
    if options.memory_fraction is not None:
        flags += ["--gpu-memory-utilization", str(options.memory_fraction)]
    kv_cache = options.kv_cache_bytes or (CPU_KV_CACHE_BYTES if launch.device == "cpu" else None)
    if kv_cache is not None:
        flags += ["--kv-cache-memory-bytes", str(kv_cache)]
    return flags


def _fairness(launch: Launch) -> list[str]:
    """What vLLM would set differently with and without speculation, or would let one arm profit from."""
    if not launch.matched:
        return []
    return [
        "--enable-prefix-caching" if launch.options.prefix_caching else "--no-enable-prefix-caching",
        "--async-scheduling" if _async_scheduling(launch) else "--no-async-scheduling",
        *graph_flags(launch),
    ]


def graph_flags(launch: Launch) -> list[str]:
    """CUDA graphs for passes that are too large for vLLM's own: a speculating arm has them at smaller batches."""
    last = launch.max_batch_size
    tiers = _ranges(launch.speculation, last) or [[1, last, launch.speculation.gamma]]
    passes = {n * (gamma + 1) for first, end, gamma in tiers for n in _graph_ladder(min(end, last)) if n >= first}
    decided = any(word.replace("_", "-").startswith(_OF_GRAPHS) for word in launch.options.engine_args)
    if launch.device == "cpu" or decided or max(passes) <= GRAPH_TOKENS:
        return []
    return ["--cudagraph-capture-sizes", *map(str, sorted({*_graph_ladder(GRAPH_TOKENS), *passes}))]


def _graph_ladder(largest: int) -> list[int]:
    """vLLM's own steps."""
    sizes = (1, 2, 4, *range(8, 256, 8), *range(256, largest, 16))
    return [*(size for size in sizes if size < largest), largest]


def _async_scheduling(launch: Launch) -> bool:
    methods = {launch.speculation.method, *launch.methods}
    return launch.device != "cpu" and not _NO_ASYNC_SCHEDULING & methods


def speculation_flags(speculation: Speculation, max_batch_size: int) -> list[str]:
    """What switches speculation on, and has it told request by request."""
    if speculation.is_plain:
        return []
    return [
        *("--speculative-config", json.dumps(speculative_config(speculation, max_batch_size), separators=(",", ":"))),
        *("--per-request-spec-decode-metrics", "detailed"),
    ]


def speculative_config(speculation: Speculation, max_batch_size: int) -> dict[str, Any]:
    """The object behind --speculative-config."""
    # The method is always named: vLLM guesses one from the path of a drafter ("eagle3" in it, for example).
    config: dict[str, Any] = {"method": speculation.method, "num_speculative_tokens": speculation.gamma}
    match speculation.method:
        case "ngram":
            config |= {"prompt_lookup_max": 4, "prompt_lookup_min": 2}
        case "suffix":
            # Its memory of earlier answers is never cleared: the second run of the same prompts would accept them all.
            config |= {"suffix_decoding_max_cached_requests": speculation.cached_requests}
        case "mtp":
            pass
        case _:
            config |= {"model": speculation.drafter}
    if (ranges := _ranges(speculation, max_batch_size)) is not None:
        config |= {"num_speculative_tokens_per_batch_size": ranges}
    return config


def _ranges(speculation: Speculation, max_batch_size: int) -> list[list[int]] | None:
    """[first, last, gamma] over batch sizes from 1 on. Above the last range vLLM keeps its gamma."""
    if speculation.schedule is None:
        return None
    return [list(one) for one in Schedule.parse(speculation.schedule).ranges(max_batch_size)]


def _environment(launch: Launch) -> dict[str, str]:
    env = {"VLLM_NO_USAGE_STATS": "1", "VLLM_SERVER_DEV_MODE": "1"}  # the latter for /server_info
    if launch.target.is_absolute():
        env["HF_HUB_OFFLINE"] = "1"
    if launch.matched and launch.device != "cpu" and _OLDER_RUNNER & {launch.speculation.method, *launch.methods}:
        env["VLLM_USE_V2_MODEL_RUNNER"] = "0"
    if launch.device == "cpu":
        # See ReferenceBackend.command: spinning threads, on a machine whose cores are all in use.
        env["OMP_WAIT_POLICY"] = "PASSIVE"
        if launch.threads is not None:
            # vLLM binds to cores as it sees fit and sets the number of threads by that, unless told not to.
            env |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(launch.threads)}
    return env


def _check_engine_args(arguments: tuple[str, ...]) -> None:
    for argument in arguments:
        flag = argument.partition("=")[0]
        if flag in ARTICLE_FLAGS:
            raise SpecbenchError(f"--engine-arg {flag}: {article_flag(flag)}")
        # vLLM takes underscores for dashes, and argparse the beginning of a flag for it.
        owned = [name for name in _OWNED if flag.startswith("-") and name.startswith(flag.replace("_", "-"))]
        if owned:
            raise SpecbenchError(f"--engine-arg {flag}: specbench sets this itself. Use {_OWNED[owned[0]]}.")


async def _json(session: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    """The endpoint's object; empty where the server does not have it."""
    async with session.get(path) as response:
        answer: dict[str, Any] = await response.json() if response.status == 200 else {}
        return answer


def _scalars(section: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without the configurations nested in them, and without what is nobody's business."""
    return {k: v for k, v in section.items() if not is_secret_name(k) and not isinstance(v, (Mapping, list))}


def _cache_info(metrics: Metrics) -> dict[str, str]:
    return {key: value for labels in metrics.get("vllm:cache_config_info", {}) for key, value in labels}


def _differences(config: Mapping[str, Any], launch: Launch) -> list[str]:
    """Sentences on what the server resolved otherwise than asked."""
    speculative = config.get("speculative_config") or {}
    resolved = {
        "max_num_seqs": config["scheduler_config"].get("max_num_seqs"),
        "max_model_len": config["model_config"].get("max_model_len"),
        "dtype": str(config["model_config"].get("dtype")).removeprefix("torch."),
        "tensor_parallel_size": config["parallel_config"].get("tensor_parallel_size"),
        "method": speculative.get("method", "none"),
        "gamma": speculative.get("num_speculative_tokens", 0),
        "schedule": speculative.get("num_speculative_tokens_per_batch_size"),
        "enable_prefix_caching": config["cache_config"].get("enable_prefix_caching"),
        "async_scheduling": config["scheduler_config"].get("async_scheduling"),
    }
    asked: dict[str, Any] = {
        "max_num_seqs": launch.max_batch_size,
        "max_model_len": launch.max_model_len,
        "dtype": launch.dtype,
        "tensor_parallel_size": launch.options.tensor_parallel,
        "method": launch.speculation.method,
        "gamma": launch.speculation.gamma,
        "schedule": _ranges(launch.speculation, launch.max_batch_size),
    }
    if launch.matched:
        asked |= {
            "enable_prefix_caching": launch.options.prefix_caching,
            "async_scheduling": _async_scheduling(launch),
        }
    found = differing(resolved, asked)
    if not launch.matched:
        defaults = (f"{name} is {resolved[name]!r}" for name in ("enable_prefix_caching", "async_scheduling"))
        found.append(f"as deployed: {', '.join(defaults)}")
    return found
