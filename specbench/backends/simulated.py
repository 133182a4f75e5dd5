"""No engine at all: the known-truth server, whose acceptance and step times come from a scenario file.

For trying a sweep of a model on hardware that one does not have, and for proving every figure against the truth.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp

from specbench.backends import sglang_counters, tensorrt_llm_counters, vllm_counters
from specbench.backends.base import Command, EngineOptions, Launch, Probe, ResolvedSettings
from specbench.backends.explain import explain
from specbench.errors import SpecbenchError
from specbench.replay.dialect import SGLANG, TENSORRT_LLM, VLLM, Dialect
from specbench.simulated.scenario import Scenario, load_scenario
from specbench.speculation import METHODS, Speculation

_DIALECTS = {"vllm": VLLM, "sglang": SGLANG, "tensorrt_llm": TENSORRT_LLM}
_COUNTERS: Mapping[str, Callable[[str], AbstractAsyncContextManager[Probe]]] = {
    "vllm": vllm_counters.count,
    "sglang": sglang_counters.count,
    "tensorrt_llm": tensorrt_llm_counters.count,
}


class SimulatedBackend:
    """Translates a launch into `python -m specbench.simulated.server …`."""

    name = "simulated"
    methods = METHODS
    options = frozenset({"scenario", "prefix_caching", "engine_args"})
    start_seconds = 1.0

    def check(self, speculation: Speculation) -> None:
        """Everything runs: a scenario has an acceptance for each method."""

    def command(self, launch: Launch) -> Command:
        options, speculation = launch.options, launch.speculation
        _scenario(options)  # a mistake in it is found before anything starts
        _only_truth(options.engine_args)
        argv = [
            *(sys.executable, "-m", "specbench.simulated.server"),
            *("--scenario", str(options.scenario and options.scenario.absolute())),
            *("--served-model-name", launch.target_name),
            *("--method", speculation.method, "--gamma", str(speculation.gamma)),
            *("--max-batch-size", str(launch.max_batch_size), "--max-model-len", str(launch.max_model_len)),
            *("--port", "{port}", "--die-with-parent"),
        ]
        if speculation.schedule is not None:
            argv += ["--schedule", speculation.schedule]
        if options.prefix_caching:
            argv.append("--prefix-caching")
        return Command((*argv, *options.engine_args))

    def dialect(self, options: EngineOptions) -> Dialect:
        return _DIALECTS[_scenario(options).engine]

    def explain(self, log: str) -> str | None:
        return explain(log)

    async def read_back(self, base_url: str, launch: Launch) -> ResolvedSettings:
        told = await _told(base_url)
        asked = {
            "method": launch.speculation.method,
            "gamma": launch.speculation.gamma,
            "schedule": launch.speculation.schedule,
            "max_batch_size": launch.max_batch_size,
            "max_model_len": launch.max_model_len,
            "prefix_caching": launch.options.prefix_caching,
        }
        return ResolvedSettings(
            engine=f"SIMULATED {told['engine']}",
            version=f"scenario {told['scenario']}",
            raw=told,
            kv_capacity_tokens=told["kv_capacity_tokens"],
            differences=tuple(
                f"{name} is {told[name]!r}, asked was {value!r}" for name, value in asked.items() if told[name] != value
            ),
        )

    @asynccontextmanager
    async def probe(self, base_url: str) -> AsyncIterator[Probe]:
        told = await _told(base_url)
        async with _COUNTERS[told["engine"]](base_url) as probe:
            yield probe


def _scenario(options: EngineOptions) -> Scenario:
    if options.scenario is None:
        raise SpecbenchError(
            "the simulated backend does what a scenario says: --scenario FILE, such as "
            "configs/scenarios/llama-70b-h200.yaml of specbench's checkout (docs/scenarios.md)."
        )
    return load_scenario(options.scenario)


def _only_truth(arguments: tuple[str, ...]) -> None:
    match arguments:
        case () | ("--truth", _):
            return
        case (one,) if one.startswith("--truth="):
            return
    raise SpecbenchError(
        f"the simulated backend takes --engine-arg='--truth FILE' and no other; got {' '.join(arguments)!r}. What its "
        "server does stands in the scenario."
    )


async def _told(base_url: str) -> dict[str, Any]:
    """The part of /server_info that only the known-truth server has."""
    async with aiohttp.ClientSession() as session, session.get(f"{base_url}/server_info") as response:
        told: dict[str, Any] = (await response.json())["simulated"]
        return told
