"""Ready to paste: what an engine is told so that it speculates as recommended."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from specbench.backends import sglang, tensorrt_llm_settings, vllm
from specbench.backends.base import EngineOptions, Launch
from specbench.backends.tensorrt_llm_version import Grammar
from specbench.demo import demo_target_path
from specbench.drafter import demo_drafter_path
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.recommend.draws import Range
from specbench.schedule import Schedule
from specbench.speculation import Speculation

_NO_LIMIT = 4096
"""Where a table's last range ends: more requests than engines decode at once."""

_OF_A_LAUNCH = ("max_model_len", "dtype", "device", "verification", "threads")
_OF_AN_ENGINE = ("tensor_parallel", "quantization", "memory_fraction")
"""What a run was told that its command says again, called the same in `Launch` and `EngineOptions`."""


@dataclass(frozen=True, slots=True)
class Paste:
    """command: to start the engine with, as the run started it; None where nothing that it can do gains
    files: what it names, by file name;  notes: what to know, in sentences
    """

    engine: str
    command: str | None
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def paste(
    engine: str,
    scheduled: Speculation,
    fixed: Speculation,
    gain: Range | None,
    config: Mapping[str, Any],
    max_batch_size: int,
) -> Paste | None:
    """For the engine of a run (a backend's name), with the run's target; None for one whose flags are not known here.

    scheduled, fixed: the method with gamma by batch size, and with the one gamma for an engine that knows no other
    gain: of the fixed one over the user's concurrency, with at most `max_batch_size` requests at once; None: not known
    config: the run's;  max_batch_size: the largest that was measured, which the command limits the engine to
    """
    name = str(config.get("target"))
    target = str(demo_target_path()) if name == "demo" and engine != "reference" else name
    # What an attached or a simulated run was told is not what its engine was started with.
    told = config if config.get("backend") == engine else {}
    launch = _launch(told, target, scheduled, max_batch_size)
    match engine:
        case "vllm":
            return _vllm(_One("vLLM", fixed, gain), launch, as_measured=bool(told))
        case "sglang":
            return _sglang(_One("SGLang", fixed, gain), launch, as_measured=bool(told))
        case "tensorrt-llm" | "tensorrt_llm":
            return _tensorrt_llm(_One("TensorRT-LLM", fixed, gain), launch, as_measured=bool(told))
        case "reference":
            return _reference(launch, as_measured=bool(told))
    return None


def _launch(told: Mapping[str, Any], target: str, arm: Speculation, max_batch_size: int) -> Launch:
    """The run's own, as far as it concerns its engine's command line."""
    given = {name: told[name] for name in _OF_A_LAUNCH if told.get(name) is not None}
    options = EngineOptions(
        **{name: told[name] for name in _OF_AN_ENGINE if told.get(name) is not None},
        kv_cache_bytes=told.get("kv_cache"),
        engine_args=tuple(word for argument in told.get("engine_arg") or () for word in shlex.split(argument)),
    )
    matched = told.get("baseline") != "as-deployed"
    return Launch(Path(target), target, arm, max_batch_size, matched=matched, options=options, **given)


@dataclass(frozen=True, slots=True)
class _One:
    """One gamma for all batch sizes, for an engine (its name for people) that knows nothing else with this method."""

    engine: str
    arm: Speculation
    gain: Range | None

    @property
    def gains(self) -> bool:
        return self.gain is not None and (self.gain.value or 0) > 1

    def note(self, most: int) -> str:
        so = f"With {self.arm.method} {self.engine} has one gamma for all batch sizes"
        if self.gain is None or self.gain.value is None:
            return f"{so}, and whether any gains over this concurrency was not measured: there is nothing to paste."
        times = f"{self.gain.value:.2f} times as fast over this concurrency, with at most {most} requests at once"
        if self.gains:
            return f"{so}: this is the best fixed one, {times}."
        return f"{so}, and the best fixed one, γ{self.arm.gamma}, is {times}: leave speculation off there."


def _with_directory(arm: Speculation) -> Speculation:
    """The demo's drafters are names of ours alone."""
    path = arm.drafter and demo_drafter_path(arm.method, arm.drafter)
    return replace(arm, drafter=str(path)) if path else arm


def _vllm(one: _One, launch: Launch, *, as_measured: bool) -> Paste:
    follows = launch.speculation.method in vllm.SCHEDULED
    note = one.note(launch.max_batch_size)
    if not follows and not one.gains:
        return Paste("vllm", None, notes=(note,))
    arm = _with_directory(launch.speculation if follows else one.arm)
    written = json.dumps(vllm.speculative_config(arm, _NO_LIMIT), separators=(",", ":"))
    limits = ["--max-num-seqs", str(launch.max_batch_size)]
    if as_measured:
        graphs = vllm.graph_flags(replace(launch, speculation=arm)) if launch.matched else []
        limits = [*vllm.shape(launch), *graphs]
    words = (*limits, "--speculative-config", written, *launch.options.engine_args)
    if follows:
        note = (
            "vLLM looks gamma up at every step by the number of requests in it, those in prefill among them; with "
            "--data-parallel-size above 1 it drops the table and keeps the largest gamma."
            + ("" if arm.method == "ngram" else " Where gamma is 0 the drafter still runs a pass a step.")
        )
    return Paste("vllm", _line("vllm", "serve", str(launch.target), *words), notes=(note,))


def _sglang(one: _One, launch: Launch, *, as_measured: bool) -> Paste:
    follows = launch.speculation.method in sglang.SCHEDULED
    note = one.note(launch.max_batch_size)
    if not follows and not one.gains:
        return Paste("sglang", None, notes=(note,))
    arm = _with_directory(launch.speculation if follows else one.arm)
    flags = [word.replace("{files}/", "") for word in sglang.speculation_flags(arm)]
    limits = sglang.shape(launch) if as_measured else ("--max-running-requests", str(launch.max_batch_size))
    words = ("--model-path", str(launch.target), *limits, *flags, *launch.options.engine_args)
    command = _line("sglang", "serve", *words)
    if arm.schedule is None:
        return Paste("sglang", command, notes=(note,))
    note = (
        "Each key holds from that batch size on. With one candidate in each, gamma follows the batch size alone; "
        "several, as in [1, 3, 5], let SGLang choose by what is accepted."
    )
    file = flags[flags.index("--speculative-adaptive-config") + 1]
    return Paste("sglang", command, {file: json.dumps(sglang.adaptive_config(Schedule.parse(arm.schedule)))}, (note,))


def _tensorrt_llm(one: _One, launch: Launch, *, as_measured: bool) -> Paste:
    files, notes = {}, ["The file is for the version that is installed; what else it holds: specbench backend command."]
    for grammar, version in ((Grammar.UNTIL_1_2, "1.2"), (Grammar.SINCE_1_3, "1.3")):
        when = f"Up to {version}" if grammar is Grammar.UNTIL_1_2 else f"From {version} on"
        try:
            try:
                settings = _tensorrt_llm_settings(launch, grammar, as_measured=as_measured)
            except UnsupportedSpeculation as no:
                notes += [f"{when}: {no}", one.note(launch.max_batch_size)]
                if not one.gains:
                    continue
                settings = _tensorrt_llm_settings(
                    replace(launch, speculation=one.arm), grammar, as_measured=as_measured
                )
        except SpecbenchError as no:
            notes.append(f"{when}: {no}")
            continue
        files[f"config-{version}.yaml"] = yaml.safe_dump(settings, sort_keys=False).strip()
    if not files:
        return Paste("tensorrt-llm", None, notes=tuple(dict.fromkeys(notes[1:])))
    words = ["--max_batch_size", str(launch.max_batch_size)]
    if as_measured:
        words += ["--max_seq_len", str(launch.max_model_len), "--tp_size", str(launch.options.tensor_parallel)]
    words += [word for word in launch.options.engine_args if not tensorrt_llm_settings.is_setting(word)]
    command = _line("trtllm-serve", "serve", str(launch.target), *words, "--config", max(files))
    return Paste("tensorrt-llm", command, files, tuple(dict.fromkeys(notes)))


def _tensorrt_llm_settings(launch: Launch, grammar: Grammar, *, as_measured: bool) -> dict[str, Any]:
    """Of a run of this engine also its memory, type and what the user added; not what only measuring needs."""
    arm = _with_directory(launch.speculation)
    if not as_measured:
        return {"speculative_config": tensorrt_llm_settings.speculative_config(arm, launch.max_batch_size, grammar)}
    # Matched settings are for comparing two arms, here there is one.
    found = tensorrt_llm_settings.configuration(replace(launch, speculation=arm, matched=False), grammar)
    return {name: value for name, value in found.items() if value != {} and name != "enable_iter_perf_stats"}


def _reference(launch: Launch, *, as_measured: bool) -> Paste:
    arm = launch.speculation
    words = ["--target", str(launch.target), "--method", arm.method, "--gamma", arm.policy or ""]
    words += ["--drafter", arm.drafter] if arm.drafter else []
    words += ["--max-batch-size", str(launch.max_batch_size)]
    if as_measured:
        words += ["--max-model-len", str(launch.max_model_len), "--dtype", launch.dtype, "--device", launch.device]
        words += ["--verification", launch.verification]
        words += ["--threads", str(launch.threads)] if launch.threads is not None else []
    return Paste("reference", _line("specbench", "serve", *words))


def _line(*words: str) -> str:
    return shlex.join(words)
