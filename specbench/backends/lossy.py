"""Switches that make speculation change what the model says: faster, and no longer the target's own outputs.

What they are called was read from the engines' sources and documents (vLLM 0.33, SGLang 0.5.23, TensorRT-LLM 1.2).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from specbench.backends.base import Command

_RELAXED_BELOW_ONE = frozenset({"speculative_accept_threshold_single", "speculative_accept_threshold_acc"})
_SYNTHETIC = frozenset({"synthetic_acceptance_length", "synthetic_acceptance_rate", "synthetic_acceptance_rates"})
_SYNTHETIC_VARIABLES = frozenset({"SGLANG_SIMULATE_ACC_LEN", "SIMULATE_ACC_LEN"})
_TYPICAL = frozenset({"posterior_threshold", "posterior_alpha", "typical_acceptance_sampler_posterior_threshold"})
_HOW_VERIFIED = frozenset(
    {"verification", "spec_decoding_acceptance_method", "draft_token_acceptance_method", "rejection_sample_method"}
)
_RELAXED = frozenset({"use_relaxed_acceptance_for_thinking", "relaxed_delta"})
_OFF = (None, False, 0, 0.0, "", "0", "None", "none", "false", "False")


def lossy_settings(settings: Mapping[str, Any], temperature: float) -> tuple[str, ...]:
    """A clause for every lossy switch among the settings that a server resolved, nested ones included."""
    return tuple(dict.fromkeys(clause for name, value in _walk(settings) if (clause := _of(name, value, temperature))))


def synthetic_clause(acceptance: str | None) -> str:
    """Of the reference decoder's acceptance, such as `synthetic:0.8`."""
    return f"acceptance is {acceptance}: it is made up"


def typical_clause(said: str = "verification is typical") -> str:
    """Of the reference decoder's way of verifying, or of whatever an engine calls it."""
    return f"{said}: typical acceptance keeps drafts that are likely enough, in other proportions than the target's"


def lossy_variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The same for variables that the server would inherit."""
    set_ones = (name for name in sorted(_SYNTHETIC_VARIABLES & environment.keys()))
    return tuple(
        f"{name}={environment[name]} makes up the acceptance" for name in set_ones if environment[name] not in _OFF
    )


def lossy_command(command: Command, temperature: float) -> tuple[str, ...]:
    """The same for a launch before it has started: its arguments, its variables, and the files that it brings."""
    written = [yaml.safe_load(text) for name, text in command.files.items() if name.endswith((".yaml", ".yml"))]
    settings = [_arguments(command.argv), *(file for file in written if isinstance(file, Mapping))]
    found = [clause for part in settings for clause in lossy_settings(part, temperature)]
    return tuple(dict.fromkeys([*found, *lossy_variables(command.env)]))


def lossy_log(log: str, temperature: float) -> tuple[str, ...]:
    """The same for what an engine admits in the log of its start."""
    fallback = re.search(r"Falling back to greedy decoding for (\w+)", log)
    if fallback is None or temperature == 0:
        return ()
    return (f"the engine falls back to greedy decoding for {fallback[1]}, whatever the temperature",)


def _arguments(argv: Sequence[str]) -> dict[str, Any]:
    """`--flag value`, `--flag=value` and `--flag` by their names in settings; JSON values are read."""
    found: dict[str, Any] = {}
    for place, word in enumerate(argv):
        if word.startswith("--"):
            flag, equals, value = word[2:].partition("=")
            if not equals:
                follows = place + 1 < len(argv) and not argv[place + 1].startswith("--")
                value = argv[place + 1] if follows else "true"
            found[flag.replace("-", "_")] = json.loads(value) if _is_json(value) else value
    return found


def _is_json(value: str) -> bool:
    try:
        return value.startswith("{") and isinstance(json.loads(value), dict)
    except ValueError:
        return False


def _of(name: str, value: Any, temperature: float) -> str | None:
    number = _number(value)
    said = f"{name} is {value}"
    if name in _RELAXED_BELOW_ONE and number is not None and number < 1:
        return f"{said}: drafts are accepted that the target would refuse"
    if name in _SYNTHETIC and value not in _OFF:
        return f"{said}: acceptance is made up"
    if name == "acceptance" and str(value).startswith("synthetic"):
        return synthetic_clause(value)
    if name == "rejection_sample_method" and value == "synthetic":
        return f"{said}: acceptance is made up"
    if (name in _TYPICAL and value not in _OFF) or (name in _HOW_VERIFIED and "typical" in str(value)):
        return typical_clause(said)
    if (name in _RELAXED and value not in _OFF) or (name == "relaxed_topk" and number is not None and number > 1):
        return f"{said}: drafts among the target's first few are accepted"
    if temperature > 0 and name == "greedy_sampling" and value is True:
        return f"{said}: drafts are judged greedily, whatever the temperature"
    if temperature > 0 and name == "allow_advanced_sampling" and value is False:
        return f"{said}: sampling falls back to greedy decoding, whatever the temperature"
    return None


def _walk(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _walk(value)
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            yield from (pair for item in value if isinstance(item, Mapping) for pair in _walk(item))
        else:
            yield str(name), value


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
