"""TensorRT-LLM: the command line and configuration file of a launch, and what the server made of them.

Contract-tested, not yet run on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp

from specbench.backends.base import Command, EngineOptions, Launch, ResolvedSettings
from specbench.backends.container import PORT, in_container, model_mounts
from specbench.backends.explain import explain
from specbench.backends.launch_checks import (
    check_on_gpu,
    check_own_head,
    check_raw_logprobs,
    check_verification,
    device_number,
    nowhere,
)
from specbench.backends.tensorrt_llm_counters import IterationProbe, count, read_iterations
from specbench.backends.tensorrt_llm_settings import as_yaml, configuration, is_setting, overlaps
from specbench.backends.tensorrt_llm_version import KNOWN, Grammar, engine_version, is_known
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.replay.dialect import TENSORRT_LLM, Dialect
from specbench.speculation import Speculation

MAX_NUM_TOKENS = 8192
"""Tokens of one pass, the engine's own default; a prompt must fit into it whole."""

_OWNED = {
    "--host": "nothing, it is the loopback device",
    "--port": "nothing, a free one is taken",
    "--backend": "nothing, specbench drives the pytorch backend alone",
    "--max_batch_size": "--batch-size",
    "--max_seq_len": "--max-model-len",
    "--tp_size": "--tensor-parallel",
    "--tensor_parallel_size": "--tensor-parallel",
    "--free_gpu_memory_fraction": "--memory-fraction",
    "--kv_cache_free_gpu_memory_fraction": "--memory-fraction",
    "--config": "--engine-arg NAME=VALUE for each setting, such as moe_config.backend=TRTLLM",
    "--extra_llm_api_options": "--engine-arg NAME=VALUE for each setting, such as moe_config.backend=TRTLLM",
}
"""Flags of trtllm-serve that specbench writes itself, and what to use instead."""

_CONTAINER_FLAGS = ("--ulimit", "memlock=-1", "--ulimit", "stack=67108864")


class TensorrtLlmBackend:
    """Translates a launch into `trtllm-serve serve …` with the pytorch backend."""

    name = "tensorrt-llm"
    methods = ("none", "ngram", "suffix", "draft_model", "eagle3", "mtp")
    options = frozenset(
        {
            *("tensor_parallel", "memory_fraction", "kv_cache_bytes", "prefix_caching", "engine_args", "python"),
            *("container", "engine_version"),
        }
    )
    start_seconds = 125.0

    def check(self, speculation: Speculation) -> None:
        match speculation.method:
            case "eagle":
                raise UnsupportedSpeculation(
                    "TensorRT-LLM's pytorch backend runs EAGLE-3 heads alone. Nearest: --method eagle3."
                )
            case "medusa":
                raise UnsupportedSpeculation(
                    "TensorRT-LLM runs medusa in its old engine format alone, which specbench does not drive. "
                    "Nearest: --method eagle3."
                )
        check_own_head(speculation, "TensorRT-LLM")

    def command(self, launch: Launch) -> Command:
        options = launch.options
        check_verification(launch, "TensorRT-LLM")
        check_raw_logprobs(launch, "TensorRT-LLM")
        check_on_gpu(launch, "TensorRT-LLM")
        if first := device_number(launch.device):
            seen = ",".join(map(str, range(first, first + options.tensor_parallel)))
            raise SpecbenchError(
                f"TensorRT-LLM takes the first GPUs that it sees: --device cuda, with CUDA_VISIBLE_DEVICES={seen}."
            )
        _check_flags(options.engine_args)
        grammar = Grammar.of(engine_version(options))
        file = f"trtllm-{launch.speculation.label}.yaml"
        inside = options.container is not None
        arguments = (
            *("serve", str(launch.target), "--backend", "pytorch"),
            *(("--host", "0.0.0.0", "--port", PORT) if inside else ("--host", "127.0.0.1", "--port", "{port}")),
            *("--max_batch_size", str(launch.max_batch_size), "--max_seq_len", str(launch.max_model_len)),
            *(("--max_num_tokens", str(max(MAX_NUM_TOKENS, launch.max_model_len))) if launch.matched else ()),
            *("--tp_size", str(options.tensor_parallel)),
            # Its other name, --config, came in 1.2.
            *("--extra_llm_api_options", f"{{files}}/{file}"),
            *(word for word in options.engine_args if not is_setting(word)),
        )
        env = {"TRTLLM_NO_USAGE_STATS": "1", **({"HF_HUB_OFFLINE": "1"} if launch.target.is_absolute() else {})}
        files = {file: as_yaml(configuration(launch, grammar))}
        if options.container is not None:
            return in_container(
                options.container,
                ("trtllm-serve", *arguments),
                env=env,
                mounts=[*model_mounts(launch), Path("{files}")],
                gpus=True,
                files=files,
                # The image's own entry point sets the paths without which TensorRT's libraries are not found.
                own_entrypoint=True,
                flags=_CONTAINER_FLAGS,
            )
        if options.python is None:
            raise nowhere("TensorRT-LLM")
        return Command((str(options.python.with_name("trtllm-serve")), *arguments), env=env, files=files)

    def dialect(self, options: EngineOptions) -> Dialect:
        return TENSORRT_LLM

    def explain(self, log: str) -> str | None:
        return explain(log, self.name)

    async def read_back(self, base_url: str, launch: Launch) -> ResolvedSettings:
        """Of its settings the server tells nothing but its version: the rest is seen in how it runs a request."""
        async with aiohttp.ClientSession(base_url, timeout=aiohttp.ClientTimeout(total=60)) as session:
            async with session.get("/version") as response:
                version = str((await response.json())["version"])
            body = {"model": launch.target_name, "prompt": "Hello", "max_tokens": 1}
            async with session.post("/v1/completions", json=body) as response:
                await response.read()
            iterations = await read_iterations(session)
        last = iterations[-1] if iterations else {}
        blocks = last.get("kvCacheStats") or {}
        capacity = blocks.get("maxNumBlocks", 0) * blocks.get("tokensPerBlock", 0)
        return ResolvedSettings(
            engine="TensorRT-LLM",
            version=version,
            raw={"iteration": dict(last), "asked": configuration(launch, Grammar.of(engine_version(launch.options)))},
            kv_capacity_tokens=capacity or None,
            differences=tuple(_differences(version, last, launch)),
        )

    def probe(self, base_url: str) -> AbstractAsyncContextManager[IterationProbe]:
        return count(base_url)


def _check_flags(words: tuple[str, ...]) -> None:
    for word in words:
        flag = word.partition("=")[0].replace("-", "_").replace("__", "--", 1)
        if flag in _OWNED:
            raise SpecbenchError(f"--engine-arg {flag}: specbench sets this itself. Use {_OWNED[flag]}.")


def _differences(version: str, iteration: Mapping[str, Any], launch: Launch) -> list[str]:
    """Sentences on what the server is, or does, otherwise than asked. iteration: the latest that it told of"""
    asked = engine_version(launch.options)
    found = []
    if version != asked:
        found.append(f"version is {version}, asked was {asked}")
    if not is_known(version):
        found.append(f"TensorRT-LLM {version} is not among the versions that are known ({', '.join(KNOWN)})")
    if not iteration:
        found.append("TensorRT-LLM told no iteration statistics: acceptance is known from requests alone")
    if (limit := iteration.get("maxBatchSizeRuntime") or launch.max_batch_size) != launch.max_batch_size:
        found.append(f"max_batch_size is {limit}, asked was {launch.max_batch_size}")
    scheduler = iteration.get("schedulerMode")  # told since 1.3
    if scheduler is not None and launch.matched and (scheduler == "overlap") != overlaps(launch, Grammar.of(asked)):
        found.append(f"the scheduler is in mode {scheduler}, asked was the other")
    if not launch.matched:
        found.append("as deployed: scheduler, CUDA graphs and prefix cache are the engine's own choice")
    return found
