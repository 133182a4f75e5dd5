"""How to make the run again: the configuration, and everything that it was made with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from pydantic_core import to_jsonable_python

from specbench.analysis.summary import RunSummary
from specbench.sweep.config import SweepConfig

COMMAND = "specbench sweep --config config.yaml"
_ALWAYS = ("backend", "target", "method", "gamma", "batch_size")
"""Shown even where they are the default: what was measured."""


def config_yaml(summary: RunSummary) -> str:
    """The sweep's configuration, as `--config` reads it, but for what is the default."""
    config: Mapping[str, Any] = summary.manifest.get("config", {})
    fields = SweepConfig.model_fields.items()
    default = {
        name: to_jsonable_python(field.get_default(call_default_factory=True))
        for name, field in fields
        if not field.is_required()
    }
    if config.get("device", "cpu") != "cpu":
        del default["dtype"]  # which is another one there
    shown = {
        name: value
        for name, value in config.items()
        if name in _ALWAYS or name not in default or value != default[name]
    }
    return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)


def made_with(summary: RunSummary) -> list[tuple[str, str]]:
    """Versions, hardware, hashes and git state as (name, value), flat."""
    keys = (k for k in summary.manifest if k not in ("config", "plan"))
    return [pair for key in keys for pair in _flat(key, summary.manifest[key])]


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(f"{name}.{key}", item)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _flat(f"{name}[{i}]", item)
    elif value is not None:
        yield name, str(value)
