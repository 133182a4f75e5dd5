"""The embedded default: specbench's own speculative decoder, run as a server process like every other engine."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp

from specbench.acceptance import AcceptanceCounts
from specbench.backends.base import Command, EngineCounters, EngineOptions, Launch, ResolvedSettings
from specbench.backends.explain import explain
from specbench.decoder.drafters import BRANCHING, CONFIDENT, METHODS
from specbench.decoder.models import QUANTIZATIONS
from specbench.decoder.policies import parse
from specbench.decoder.rates import PREFIX as SYNTHETIC
from specbench.decoder.tree_shape import CHAIN
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.replay.dialect import VLLM, Dialect
from specbench.speculation import Speculation
from specbench.telemetry.prometheus import CounterDelta, Metrics, any_reset, counter_delta, scrape

_PHASES = ("prefill", "draft", "prepare", "verify", "accept", "host")


class ReferenceBackend:
    """Translates a launch into `python -m specbench.decoder.server …`."""

    name = "reference"
    methods = tuple(METHODS)
    options: frozenset[str] = frozenset(
        {"acceptance", "adaptive", "tree", "suffix_cached_requests", "quantization", "engine_args"}
    )
    start_seconds = 5.0

    def check(self, speculation: Speculation) -> None:
        if speculation.method not in METHODS:
            raise UnsupportedSpeculation(
                f"the reference decoder does not run {speculation.method}. It runs: {', '.join(METHODS)}."
            )
        if parse(speculation.policy or 0).stop_below is not None and speculation.method not in CONFIDENT:
            raise UnsupportedSpeculation(
                f"{speculation.method} does not stop where it is unsure, as {speculation.policy} asks. It is for "
                f"{', '.join(CONFIDENT)}; nearest: --gamma adaptive:threshold."
            )
        if speculation.tree is not None and speculation.method not in BRANCHING:
            raise UnsupportedSpeculation(
                f"{speculation.method} drafts chains, no trees: these are for {', '.join(BRANCHING)}. Leave --tree out."
            )
        if speculation.tree is not None and parse(speculation.policy or 0).stop_below is not None:
            raise UnsupportedSpeculation(
                f"a tree does not end where the drafter is unsure: leave --tree or --gamma {speculation.policy} out."
            )

    def command(self, launch: Launch) -> Command:
        speculation = launch.speculation
        _own_arguments(launch.options.engine_args)
        _known_quantization(launch.options.quantization, launch.device)
        argv = [
            *(sys.executable, "-m", "specbench.decoder.server"),
            *("--target", str(launch.target), "--served-model-name", launch.target_name),
            *("--method", speculation.method, "--gamma", speculation.policy or str(speculation.gamma)),
            *("--max-batch-size", str(launch.max_batch_size), "--max-model-len", str(launch.max_model_len)),
            *("--dtype", launch.dtype, "--device", launch.device, "--verification", launch.verification),
            *("--port", "{port}", "--die-with-parent"),
        ]
        if speculation.drafter is not None:
            argv += ["--drafter", speculation.drafter]
        if speculation.tree is not None:
            argv += ["--tree", speculation.tree]
        if speculation.cached_requests:
            argv += ["--suffix-cached-requests", str(speculation.cached_requests)]
        if speculation.synthetic is not None:
            argv += ["--acceptance", SYNTHETIC + speculation.synthetic]
        if launch.options.quantization is not None:
            argv += ["--quantization", launch.options.quantization]
        if launch.logprobs != "raw":
            argv += ["--logprobs-mode", launch.logprobs]
        if launch.threads is not None:
            argv += ["--threads", str(launch.threads)]
        argv += launch.options.engine_args
        # OpenMP's threads spin while they wait for each other, by default for milliseconds. With every core in use (the
        # client takes part of one) steps then take many times as long; threads that sleep at once are slow on a quiet
        # machine. This spins for a few tenths of a millisecond, longer than the gaps between two kernels.
        return Command(tuple(argv), env={"GOMP_SPINCOUNT": "20000"}, nice=5 if launch.device == "cpu" else 0)

    def dialect(self, options: EngineOptions) -> Dialect:
        return VLLM

    def explain(self, log: str) -> str | None:
        return explain(log)

    async def read_back(self, base_url: str, launch: Launch) -> ResolvedSettings:
        async with aiohttp.ClientSession() as session, session.get(f"{base_url}/server_info") as response:
            info: dict[str, Any] = await response.json()
        asked = {
            "method": launch.speculation.method,
            "gamma": launch.speculation.gamma,
            "policy": launch.speculation.policy,
            "max_batch_size": launch.max_batch_size,
            "max_model_len": launch.max_model_len,
            "dtype": launch.dtype,
            "quantization": launch.options.quantization,
            "verification": launch.verification,
            "tree": launch.speculation.tree or CHAIN,
            "suffix_cached_requests": launch.speculation.cached_requests,
            "acceptance": launch.speculation.synthetic and SYNTHETIC + launch.speculation.synthetic,
        }
        if launch.device != "cpu" and re.search(r"--lagged[ =]auto", " ".join(launch.options.engine_args)):
            asked["lagged"] = True  # an arm that cannot is led by the host, and the others are not
        return ResolvedSettings(
            engine="specbench reference decoder",
            version=str(info["version"]),
            raw=info,
            kv_capacity_tokens=info.get("kv_capacity_tokens"),
            differences=tuple(
                f"{name} is {info.get(name)!r}, asked was {value!r}"
                for name, value in asked.items()
                if info.get(name) != value
            ),
        )

    @asynccontextmanager
    async def probe(self, base_url: str) -> AsyncIterator[_CounterProbe]:
        probe = _CounterProbe()
        before = await scrape(base_url)
        yield probe
        with suppress(SpecbenchError):  # the server has died: its counters are gone, the traces tell the rest
            probe.counters = counters_between(before, await scrape(base_url))


def _known_quantization(name: str | None, device: str) -> None:
    if name is not None and (name not in QUANTIZATIONS or device != "cpu"):
        raise SpecbenchError(
            f"the reference decoder keeps a target's weights as {' or '.join(QUANTIZATIONS)}, on a CPU; got "
            f"--quantization {name} --device {device}. Leave it out."
        )


def _own_arguments(arguments: tuple[str, ...]) -> None:
    """All else that the server can be told has a flag of specbench's own."""
    given = " ".join(arguments)
    if not re.fullmatch(r"(--(kernels|lagged)[ =](off|auto)( |$))*", given):
        raise SpecbenchError(
            "the reference decoder takes --kernels=off or --kernels=auto and --lagged=off or --lagged=auto "
            f"(docs/kernels.md), and no other argument; got {given!r}."
        )


@dataclass
class _CounterProbe:
    counters: EngineCounters | None = None


def counters_between(before: Metrics, after: Metrics) -> EngineCounters | None:
    """What the server counted in between; nothing but that where a counter went back, since it then restarted."""
    if any_reset(before, after, "specbench:"):
        return EngineCounters(reset=True)

    def delta(name: str) -> CounterDelta:
        found = counter_delta(before, after, f"specbench:{name}_total")
        assert found is not None, name
        return found

    steps = delta("num_steps")
    # Plain decoding has no draft positions, so no such counter either.
    positions = counter_delta(before, after, "specbench:spec_decode_num_accepted_tokens_per_pos_total")
    by_position = positions.by("position") if positions else {}
    phases = {phase: delta(f"{phase}_seconds").total for phase in _PHASES}
    return EngineCounters(
        acceptance=AcceptanceCounts(
            steps=int(steps.total),
            drafted=int(delta("spec_decode_num_draft_tokens").total),
            accepted=int(delta("spec_decode_num_accepted_tokens").total),
            drafts=int(delta("spec_decode_num_drafts").total),
            by_position=tuple(int(by_position[k]) for k in sorted(by_position, key=int)),
        ),
        generated_tokens=int(delta("generation_tokens").total),
        phase_seconds={phase: s for phase, s in phases.items() if s or phase != "prepare"},  # a phase of ssd alone
        passes=int(delta("num_passes").total),
        prepared_drafts=int(delta("prepared_drafts").total),
        ready_drafts=int(delta("ready_drafts").total),
        drafting_passes=int(delta("drafting_passes").total),
        late_passes=int(delta("late_passes").total),
        verify_bytes=int(delta("verify_bytes").total),
        read_bytes_per_s=after.get("specbench:read_bytes_per_s", {}).get(frozenset()),
    )
