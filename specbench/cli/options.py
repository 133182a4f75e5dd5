"""How option values are written on the command line: lists with commas, pairs with an equals sign."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from specbench.errors import SpecbenchError


def words(text: str, flag: str) -> list[str]:
    """`a,b` as a list. Raises SpecbenchError when nothing is between two commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise SpecbenchError(f"{flag}: expected names separated by commas; got {text!r}.")
    return parts


def whole_numbers(text: str, flag: str) -> list[int]:
    """`1,2,4` as a list of integers."""
    try:
        return [int(part) for part in words(text, flag)]
    except ValueError:
        raise SpecbenchError(
            f"{flag}: expected whole numbers separated by commas, as in 1,2,4; got {text!r}."
        ) from None


def pairs(text: str, flag: str, form: str = "METHOD=DIRECTORY, as in draft_model=./my-draft") -> dict[str, str]:
    """`a=x,b=y` as a mapping."""
    found = {}
    for part in words(text, flag):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise SpecbenchError(f"{flag}: expected {form}; got {part!r}.")
        found[name] = value
    return found


def values(text: str, flag: str) -> dict[str, Any]:
    """`a=true,b=x` as a mapping; what reads as JSON is taken as such, the rest as text."""
    return {name: _value(value) for name, value in pairs(text, flag, "NAME=VALUE, as in enable_thinking=false").items()}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


_READ: Mapping[str, Callable[[str, str], Any]] = {
    "workload": words,
    "method": words,
    "drafter": pairs,
    "gamma": whole_numbers,
    "batch_size": whole_numbers,
    "chat_template_kwargs": values,
}
"""Options that are written as text on the command line and are something else in a configuration."""


def given(options: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """What was given of these fields, read. options: by name, None or an empty list where nothing was given"""
    return {
        name: _READ[name](value, f"--{name.replace('_', '-')}") if name in _READ else value
        for name, value in options.items()
        if name in fields and value is not None and value != []
    }
