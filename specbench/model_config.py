"""What a model directory says of itself: config.json and tokenizer_config.json, read with a sentence for each flaw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError


def model_config(model: Path) -> dict[str, Any]:
    """The content of `config.json`. Raises SpecbenchError where it is missing, or no JSON object."""
    return _object(model / "config.json", "a model's configuration")


def tokenizer_config(model: Path) -> dict[str, Any]:
    """The content of `tokenizer_config.json`. Raises SpecbenchError where it is missing, or no JSON object."""
    return _object(model / "tokenizer_config.json", "a tokenizer's configuration")


def _object(file: Path, what: str) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("no JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise SpecbenchError(f"{file}: not {what} ({error}). Download the model again.") from error
    return content
