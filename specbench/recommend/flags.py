"""Ready to paste: what an engine is told so that it speculates as recommended."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from specbench.backends import sglang, tensorrt_llm_settings, vllm
from specbench.backends.tensorrt_llm_version import Grammar
from specbench.demo import demo_target_path
from specbench.drafter import demo_drafter_path
from specbench.errors import UnsupportedSpeculation
from specbench.schedule import Schedule
from specbench.speculation import Speculation

_NO_LIMIT = 4096
"""Where a table's last range ends: more requests than engines decode at once."""

_ONE = "With {method} {engine} has one gamma for all batch sizes: this is the best fixed one."


@dataclass(frozen=True, slots=True)
class Paste:
    """command: to start the engine with;  files: what it names, by file name;  notes: what to know, in sentences"""

    engine: str
    command: str
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def paste(
    engine: str, scheduled: Speculation, fixed: Speculation, config: Mapping[str, Any], max_batch_size: int
) -> Paste | None:
    """For the engine of a run (a backend's name), with the run's target; None for one whose flags are not known here.

    scheduled, fixed: the method with gamma by batch size, and with the one gamma for an engine that knows no other
    config: the run's;  max_batch_size: the largest that was measured, which the command limits the engine to
    """
    name = str(config.get("target"))
    target = str(demo_target_path()) if name == "demo" else name
    match engine:
        case "vllm":
            follows = scheduled.method in vllm.SCHEDULED
            return _vllm(_with_directory(scheduled if follows else fixed), target, max_batch_size)
        case "sglang":
            return _sglang(scheduled, fixed, target, max_batch_size)
        case "tensorrt-llm" | "tensorrt_llm":
            return _tensorrt_llm(_with_directory(scheduled), _with_directory(fixed), target, max_batch_size)
        case "reference":
            return _reference(fixed, name, max_batch_size)
    return None


def _with_directory(arm: Speculation) -> Speculation:
    """The demo's drafters are names of ours alone."""
    path = arm.drafter and demo_drafter_path(arm.method, arm.drafter)
    return replace(arm, drafter=str(path)) if path else arm


def _vllm(arm: Speculation, target: str, max_batch_size: int) -> Paste:
    written = json.dumps(vllm.speculative_config(arm, _NO_LIMIT), separators=(",", ":"))
    command = _line("vllm", "serve", target, "--max-num-seqs", str(max_batch_size), "--speculative-config", written)
    note = (
        "vLLM looks gamma up at every step by the number of requests in it, those in prefill among them; with "
        "--data-parallel-size above 1 it drops the table and keeps the largest gamma."
        + ("" if arm.method == "ngram" else " Where gamma is 0 the drafter still runs a pass a step.")
    )
    return Paste("vllm", command, notes=(note if arm.schedule else _ONE.format(engine="vLLM", method=arm.method),))


def _sglang(scheduled: Speculation, fixed: Speculation, target: str, max_batch_size: int) -> Paste:
    follows = scheduled.method in sglang.SCHEDULED
    arm = _with_directory(scheduled if follows else fixed)
    flags = [word.replace("{files}/", "") for word in sglang.speculation_flags(arm)]
    command = _line("sglang", "serve", "--model-path", target, "--max-running-requests", str(max_batch_size), *flags)
    if arm.schedule is None:
        return Paste("sglang", command, notes=(_ONE.format(engine="SGLang", method=arm.method),))
    note = (
        "Each key holds from that batch size on. With one candidate in each, gamma follows the batch size alone; "
        "several, as in [1, 3, 5], let SGLang choose by what is accepted."
    )
    file = flags[flags.index("--speculative-adaptive-config") + 1]
    return Paste("sglang", command, {file: json.dumps(sglang.adaptive_config(Schedule.parse(arm.schedule)))}, (note,))


def _tensorrt_llm(scheduled: Speculation, fixed: Speculation, target: str, max_batch_size: int) -> Paste:
    files, notes = {}, ["The file is for the version that is installed; what else it holds: specbench backend command."]
    for grammar, version in ((Grammar.UNTIL_1_2, "1.2"), (Grammar.SINCE_1_3, "1.3")):
        try:
            settings = tensorrt_llm_settings.speculative_config(scheduled, max_batch_size, grammar)
        except UnsupportedSpeculation as no:
            notes.append(f"Up to {version}: {no}" if grammar is Grammar.UNTIL_1_2 else f"From {version} on: {no}")
            settings = tensorrt_llm_settings.speculative_config(fixed, max_batch_size, grammar)
        files[f"config-{version}.yaml"] = yaml.safe_dump({"speculative_config": settings}, sort_keys=False).strip()
    command = ("trtllm-serve", "serve", target, "--max_batch_size", str(max_batch_size), "--config", "config-1.3.yaml")
    return Paste("tensorrt-llm", _line(*command), files, tuple(notes))


def _reference(arm: Speculation, target: str, max_batch_size: int) -> Paste:
    drafter = ("--drafter", arm.drafter) if arm.drafter else ()
    command = ("specbench", "serve", "--target", target, "--method", arm.method, "--gamma", str(arm.gamma), *drafter)
    note = "The reference decoder has one gamma for all batch sizes: this is the best fixed one."
    return Paste("reference", _line(*command, "--max-batch-size", str(max_batch_size)), notes=(note,))


def _line(*words: str) -> str:
    return shlex.join(words)
