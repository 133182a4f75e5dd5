"""The model to be served, as `--model` and `--dtype` name it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import Precision
from specbench.paths import expand_home
from specbench.planning.shape import ModelShape
from specbench.yaml_file import read_mapping

SHIPPED = Path(__file__).parents[1] / "shapes.yaml"

WEIGHTS: Mapping[str, tuple[float, Precision]] = {
    "fp32": (4.0, "fp32"),
    "bf16": (2.0, "bf16"),
    "fp8": (1.0, "fp8"),
    "int4": (0.5, "bf16"),
}
"""Bytes of a parameter, and what is computed in: 4-bit weights are unpacked to 16 bits."""


def shape_of(model: str) -> ModelShape:
    """model: a config.json, the directory that holds one, or a name of shapes.yaml. Raises SpecbenchError."""
    return ModelShape.of(_config(model))


def with_weights(shape: ModelShape, dtype: str) -> tuple[ModelShape, Precision]:
    """The same model with weights of another type; the cache stays as it is. Raises SpecbenchError."""
    if dtype not in WEIGHTS:
        raise SpecbenchError(f"{dtype!r} is no type of weights. Choose from: {', '.join(WEIGHTS)}.")
    size, precision = WEIGHTS[dtype]
    return replace(shape, weight_bytes=size), precision


def dtype_of(shape: ModelShape) -> str:
    return next(name for name, (size, _) in WEIGHTS.items() if size == shape.weight_bytes)


def _config(model: str) -> Mapping[str, Any]:
    known = read_mapping(SHIPPED)
    if model.lower() in known:
        config: Mapping[str, Any] = known[model.lower()]
        return config
    path = expand_home(model)
    file = path / "config.json" if path.is_dir() else path
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        near = get_close_matches(model.lower(), known, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise SpecbenchError(
            f"--model: there is no {file}, nor a known model of that name.{hint} Give a Hugging Face config.json, its "
            f"directory, or one of: {', '.join(known)}."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise SpecbenchError(f"--model: {file}: not a model's configuration ({error}).") from error
    if not isinstance(content, dict):
        raise SpecbenchError(f"--model: {file}: not a model's configuration (no JSON object).")
    return content
