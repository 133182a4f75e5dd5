"""A sweep's configuration in a YAML file, and the command line's flags that override it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from specbench.errors import SpecbenchError
from specbench.store.atomic import replacing
from specbench.sweep.attach_options import UNSHOWN
from specbench.sweep.config import SweepConfig
from specbench.yaml_file import read_mapping


def load_config(path: Path | None, overrides: Mapping[str, Any]) -> SweepConfig:
    """The configuration in a YAML file (or the defaults), with flags on top.

    Raises SpecbenchError naming the file or flag and the field.
    """
    values: dict[str, Any] = {}
    if path is not None:
        values = _read_yaml(path)
    try:
        return SweepConfig.model_validate({**values, **overrides})
    except ValidationError as error:
        raise SpecbenchError(_sentence(error, path, overrides)) from error


def save_config(config: SweepConfig, path: Path) -> None:
    """Write the configuration as YAML that `load_config` reads back."""
    try:
        with replacing(path) as partial:
            text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecbenchError(f"cannot write {path}: {error.strerror}.") from error


def _read_yaml(path: Path) -> dict[str, Any]:
    values = read_mapping(path)
    # One value may stand for a list of one, as on the command line.
    arms = ("workload", "method", "gamma", "tree", "suffix_cached_requests", "batch_size", "request_rate")
    for name in (*arms, "engine_arg"):
        if name in values and not isinstance(values[name], list):
            values[name] = [values[name]]
    return values


def _sentence(error: ValidationError, path: Path | None, overrides: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    field = str(first["loc"][0]) if first["loc"] else None
    reason = first["msg"].removeprefix("Value error, ").removesuffix(".")
    if field is None:
        return f"{reason}."
    flag = f"--{field.replace('_', '-')}"
    where = flag if field in overrides or path is None else f"{path}: {field}"
    if first["type"] == "extra_forbidden":
        return f"{path}: unknown option {field!r}. Known: {', '.join(SweepConfig.model_fields)}."
    if first["type"] == "missing":
        return f"no {field} given. Pass {flag} FILE, or set {field} in --config."
    if field in UNSHOWN or field == "engine_arg" or "; got " in reason:
        return f"{where}: {reason}."
    return f"{where}: {reason}; got {first['input']!r}."
