"""SGLang: the flags of a launch, and what the server made of them.

Contract-tested against SGLang 0.5.23's own parser and resolver; not yet run on a GPU.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from specbench.access import is_secret_name
from specbench.backends.base import Command, EngineOptions, Launch, ResolvedSettings
from specbench.backends.container import PORT, in_container, model_mounts
from specbench.backends.counter_probe import CounterProbe
from specbench.backends.explain import explain
from specbench.backends.launch_checks import (
    check_on_gpu,
    check_own_head,
    check_raw_logprobs,
    check_schedule,
    check_verification,
    device_number,
    differing,
    nowhere,
)
from specbench.backends.sglang_counters import count
from specbench.backends.sglang_refusals import check_arguments, check_combination
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.replay.dialect import SGLANG, Dialect
from specbench.schedule import Schedule
from specbench.speculation import Speculation

logger = logging.getLogger(__name__)

TESTED = ("0.5.23",)
"""Versions whose flags, fields and counters are known."""

ALGORITHMS = {"ngram": "NGRAM", "draft_model": "STANDALONE", "eagle3": "EAGLE3", "eagle": "EAGLE", "mtp": "NEXTN"}
"""SGLang's names of the methods. `mtp` is the head that the target brings."""

SCHEDULED = ("eagle3", "eagle", "mtp")
"""Whose gamma may follow the batch size. SGLang drops a schedule of the others without an error."""

MEMORY_FRACTION = 0.8
"""Where none is given, in matched arms: SGLang's own choice is another with speculation than without."""


class SglangBackend:
    """Translates a launch into `sglang serve`."""

    name = "sglang"
    methods = ("none", *ALGORITHMS)
    options = frozenset(
        {
            *("tensor_parallel", "quantization", "memory_fraction", "prefix_caching", "engine_args"),
            *("python", "container"),
        }
    )
    start_seconds = 90.0

    def check(self, speculation: Speculation) -> None:
        if speculation.method not in self.methods:
            raise UnsupportedSpeculation(
                f"SGLang does not run {speculation.method}. It runs: {', '.join(self.methods)}; nearest: "
                f"{'ngram' if speculation.method == 'suffix' else 'eagle3'}."
            )
        check_own_head(speculation, "SGLang")
        check_schedule(speculation, "SGLang", SCHEDULED)

    def command(self, launch: Launch) -> Command:
        options = launch.options
        check_verification(launch, "SGLang")
        check_raw_logprobs(launch, "SGLang")
        check_on_gpu(launch, "SGLang")
        check_arguments(options.engine_args)
        inside = options.container is not None
        arguments = (
            *("serve", "--model-path", str(launch.target), "--served-model-name", launch.target_name),
            *(("--host", "0.0.0.0", "--port", PORT) if inside else ("--host", "127.0.0.1", "--port", "{port}")),
            *shape(launch),
            *_fairness(launch),
            *speculation_flags(launch.speculation),
            "--enable-metrics",
            # A model's own sampling defaults (top_k…) would be added to what a request asks for.
            *("--sampling-defaults", "openai"),
            *options.engine_args,
        )
        check_combination(arguments)
        env = {"HF_HUB_OFFLINE": "1"} if launch.target.is_absolute() else {}
        files = _files(launch.speculation)
        if options.container is not None:
            mounts = [*model_mounts(launch), *([Path("{files}")] if files else [])]
            made = in_container(
                options.container, ("sglang", *arguments), env=env, mounts=mounts, gpus=True, files=files
            )
            return replace(made, ready_path=READY)
        if options.python is None:
            raise nowhere("SGLang")
        return Command((str(options.python.with_name("sglang")), *arguments), env=env, files=files, ready_path=READY)

    def dialect(self, options: EngineOptions) -> Dialect:
        return SGLANG

    def explain(self, log: str) -> str | None:
        return explain(log, self.name)

    async def read_back(self, base_url: str, launch: Launch) -> ResolvedSettings:
        """Raises SpecbenchError where the server speculates otherwise than asked: that would be another arm."""
        async with (
            aiohttp.ClientSession(base_url, timeout=aiohttp.ClientTimeout(total=30)) as session,
            session.get("/server_info") as response,
        ):
            response.raise_for_status()
            info: Mapping[str, Any] = await response.json()
        version = str(info["version"])
        if not version.startswith(TESTED):
            logger.warning("SGLang %s is not among the versions that specbench knows (%s)", version, ", ".join(TESTED))
        if wrong := differing(_speculates(info), _asked_speculation(launch.speculation)):
            raise SpecbenchError(f"the server speculates otherwise than asked: {'; '.join(wrong)}.")
        return ResolvedSettings(
            engine="SGLang",
            version=version,
            raw=_told(info),
            kv_capacity_tokens=info.get("max_total_num_tokens"),
            differences=tuple(_differences(info, launch)),
        )

    def probe(self, base_url: str) -> AbstractAsyncContextManager[CounterProbe]:
        return count(base_url)


READY = "/ready"
"""`/health` would have the engine generate a token, each time it is asked."""


def speculation_flags(speculation: Speculation) -> list[str]:
    """What switches speculation on: a chain of gamma drafted tokens.

    Steps, width and draft tokens always together: left out, SGLang chooses others without a word, or fails.
    """
    if speculation.is_plain:
        return []
    gamma = speculation.gamma
    return [
        *("--speculative-algorithm", ALGORITHMS[speculation.method]),
        *(("--speculative-draft-model-path", speculation.drafter) if speculation.drafter else ()),
        *("--speculative-num-steps", str(gamma), "--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", str(gamma + 1)),
        # For n-gram lookup, this is what makes a chain of the tree that it would draft.
        *(("--speculative-ngram-max-bfs-breadth", "1") if speculation.method == "ngram" else ()),
        *(
            ("--speculative-adaptive", "--speculative-adaptive-config", f"{{files}}/{_SCHEDULE_FILE}")
            if speculation.schedule is not None
            else ()
        ),
    ]


_SCHEDULE_FILE = "sglang-schedule.json"


def adaptive_config(schedule: Schedule) -> dict[str, Any]:
    """What --speculative-adaptive-config reads, for a gamma that follows the batch size alone.

    SGLang rounds a batch up to its next CUDA graph and takes the entry of the largest key that is not above.
    """
    return {str(start): {"candidate_steps": [gamma]} for start, gamma in schedule.steps}


def _files(speculation: Speculation) -> dict[str, str]:
    if speculation.schedule is None:
        return {}
    return {_SCHEDULE_FILE: json.dumps(adaptive_config(Schedule.parse(speculation.schedule)), indent=1)}


def shape(launch: Launch) -> list[str]:
    """What decides memory and speed, the same in both arms."""
    options = launch.options
    first = device_number(launch.device)
    flags = [
        *("--device", "cuda", *(("--base-gpu-id", str(first)) if first is not None else ())),
        *("--dtype", launch.dtype, "--context-length", str(launch.max_model_len)),
        *("--max-running-requests", str(launch.max_batch_size)),
    ]
    if options.tensor_parallel > 1:
        flags += ["--tp-size", str(options.tensor_parallel)]
    if options.quantization is not None:
        flags += ["--quantization", options.quantization]
    fraction = options.memory_fraction or (MEMORY_FRACTION if launch.matched else None)
    if fraction is not None:
        flags += ["--mem-fraction-static", str(fraction)]
    return flags


def _fairness(launch: Launch) -> list[str]:
    """What SGLang would set differently with and without speculation, or would let one arm profit from."""
    if not launch.matched:
        return []
    return [
        *("--cuda-graph-bs-decode", *map(str, graph_ladder(launch.max_batch_size))),
        *(() if launch.options.prefix_caching else ("--disable-radix-cache",)),
    ]


def graph_ladder(largest: int) -> list[int]:
    """Batch sizes that get a CUDA graph: the finer of the two ladders that SGLang has, for both arms."""
    sizes = (*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, largest, 16))
    return [*(size for size in sizes if size < largest), largest]


def _told(info: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are set, without keys and without the command line, which may hold some."""
    return {
        name: value
        for name, value in info.items()
        if value is not None and not isinstance(value, Mapping) and not is_secret_name(name)
    }


def _asked_speculation(speculation: Speculation) -> dict[str, Any]:
    if speculation.is_plain:
        return {"speculative_algorithm": None}
    # An alias of the other: the head is then the target's own.
    algorithm = {"NEXTN": "EAGLE"}.get(ALGORITHMS[speculation.method], ALGORITHMS[speculation.method])
    return {
        "speculative_algorithm": algorithm,
        "speculative_num_draft_tokens": speculation.gamma + 1,
        "speculative_eagle_topk": 1,
        "speculative_adaptive": speculation.schedule is not None,
    }


def _speculates(info: Mapping[str, Any]) -> dict[str, Any]:
    algorithm = info.get("speculative_algorithm")
    return {
        "speculative_algorithm": "EAGLE" if algorithm == "NEXTN" else algorithm,
        "speculative_num_draft_tokens": info.get("speculative_num_draft_tokens"),
        "speculative_eagle_topk": info.get("speculative_eagle_topk"),
        "speculative_adaptive": bool(info.get("speculative_adaptive")),
    }


def running_limit(info: Mapping[str, Any]) -> int | list[int] | None:
    """Requests that run together on a rank, at most; a list where ranks differ, None where they do not tell.

    Its setting `max_running_requests` is what was asked for, and filled in with speculation alone.
    """
    told = [state.get("effective_max_running_requests_per_dp") for state in info.get("internal_states") or ()]
    limits: list[int] = [limit for limit in told if limit is not None]
    return limits[0] if len(set(limits)) == 1 else limits or None


def _differences(info: Mapping[str, Any], launch: Launch) -> list[str]:
    """Sentences on what the server resolved otherwise than asked."""
    resolved = {**info, "max_running_requests": running_limit(info)}
    asked: dict[str, Any] = {
        "max_running_requests": launch.max_batch_size,
        "context_length": launch.max_model_len,
        "dtype": launch.dtype,
        "tp_size": launch.options.tensor_parallel,
    }
    if launch.matched:
        asked |= {
            "mem_fraction_static": launch.options.memory_fraction or MEMORY_FRACTION,
            "disable_radix_cache": not launch.options.prefix_caching,
            "cuda_graph_bs_decode": graph_ladder(launch.max_batch_size),
        }
    found = differing(resolved, asked)
    if not launch.matched:
        names = ("mem_fraction_static", "disable_radix_cache", "attention_backend")
        found.append("as deployed: " + ", ".join(f"{name} is {info.get(name)!r}" for name in names))
    return found
