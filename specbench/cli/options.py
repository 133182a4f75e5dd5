"""How option values are written on the command line: lists with commas, pairs with an equals sign."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import typer

from specbench.decoder.policies import ADAPTIVE
from specbench.errors import SpecbenchError
from specbench.schedule import PREFIX


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


def gammas(text: str, flag: str) -> list[int | str]:
    """`2,4,schedule:1=4+5=2,adaptive:threshold` as a list; what is no number stays as it is written."""
    return [part if part.startswith((PREFIX, ADAPTIVE)) else whole_numbers(part, flag)[0] for part in words(text, flag)]


def numbers(text: str, flag: str) -> list[float]:
    """`0.5,2,4` as a list of numbers."""
    try:
        return [float(part) for part in words(text, flag)]
    except ValueError:
        raise SpecbenchError(f"{flag}: expected numbers separated by commas, as in 0.5,2,4; got {text!r}.") from None


def percentage(text: str, flag: str) -> float:
    """`3%` as a share of 1, above 0 and below 1."""
    from specbench.quantities import share

    try:
        value = share(text)
    except ValueError as error:
        raise SpecbenchError(f"{flag}: {error}; got {text!r}.") from None
    if not isinstance(value, float) or not 0 < value < 1:
        raise SpecbenchError(f"{flag}: expected more than 0% and less than 100%; got {text!r}.")
    return value


def refuse_given(context: typer.Context, names: Collection[str], why: str) -> None:
    """Raises SpecbenchError for an option of the running command that was given where it means nothing.

    names: the command's parameters;  why: ends the sentence that begins with the option
    """
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise SpecbenchError(f"--{name.replace('_', '-')} {why}.")


def pairs(text: str, flag: str, form: str = "METHOD=DIRECTORY, as in draft_model=./my-draft") -> dict[str, str]:
    """`a=x,b=y` as a mapping."""
    found = {}
    for part in words(text, flag):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise SpecbenchError(f"{flag}: expected {form}; got {part!r}.")
        if name in found:
            raise SpecbenchError(f"{flag}: {name} is given twice; leave one of them out.")
        found[name] = value
    return found


def headers(written: list[str], flag: str) -> dict[str, str]:
    """`X-Team=search`, any number of times, as a mapping. No message repeats what was written: it may be a secret.

    Whether names are some is for the configuration to judge: of `Authorization: Bearer c2VjcmV0==` all but the last
    sign stands where a name does.
    """
    found = {}
    for part in written:
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise SpecbenchError(f"{flag}: expected NAME=VALUE, as in X-Team=search.")
        found[name.strip()] = value.strip()
    return found


def values(text: str, flag: str) -> dict[str, Any]:
    """`a=true,b=x` as a mapping; what reads as JSON is taken as such, the rest as text."""
    return {name: _value(value) for name, value in pairs(text, flag, "NAME=VALUE, as in enable_thinking=false").items()}


def bounds(text: str, flag: str) -> Any:
    """`ttft_p95=500ms,tpot_p95=50ms` as a mapping to seconds."""
    from specbench.quantities import latency_bounds

    written = pairs(text, flag, "METRIC_pPERCENTILE=TIME, as in ttft_p95=500ms")
    try:
        return latency_bounds(written)
    except ValueError as error:
        raise SpecbenchError(f"{flag}: {error}; got {text!r}.") from None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


_READ: Mapping[str, Callable[[Any, str], Any]] = {
    "workload": words,
    "method": words,
    "drafter": pairs,
    "gamma": gammas,
    "tree": words,
    "suffix_cached_requests": whole_numbers,
    "batch_size": whole_numbers,
    "request_rate": numbers,
    "slo": bounds,
    "chat_template_kwargs": values,
    "header": headers,
    "header_env": headers,
}
"""Options that are written as text on the command line and are something else in a configuration."""


def given(options: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """What was given of these fields, read. options: by name, None or an empty list where nothing was given"""
    return {
        name: _READ[name](value, f"--{name.replace('_', '-')}") if name in _READ else value
        for name, value in options.items()
        if name in fields and value is not None and value != []
    }
