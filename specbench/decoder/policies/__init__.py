"""Rules that pick gamma, and how they are written. A new adaptive one is a file and a line here. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from specbench.decoder.policies.base import ADAPTIVE, GammaPolicy
from specbench.decoder.policies.confidence import ConfidenceRule, ConfidenceStop
from specbench.decoder.policies.fixed import FixedGamma
from specbench.decoder.policies.goodput import GoodputPolicy, GoodputRule
from specbench.decoder.policies.table import PREFIX, GammaTable, read_steps
from specbench.decoder.policies.threshold import ThresholdPolicy, ThresholdRule

__all__ = ["ADAPTIVE", "PREFIX", "RULES", "FixedGamma", "GammaPolicy", "parse", "read_rule"]

_RULES: dict[str, tuple[type[Any], Callable[[Any], GammaPolicy]]] = {
    "threshold": (ThresholdRule, ThresholdPolicy),
    "goodput": (GoodputRule, GoodputPolicy),
    "confidence": (ConfidenceRule, ConfidenceStop),
}
"""By name: its settings, all of which have defaults, and what follows them."""

RULES = tuple(_RULES)


def parse(written: int | str) -> GammaPolicy:
    """`4`, `schedule:1=4+9=0` (by batch size), or `adaptive:threshold+max=5+on=drafted`. Raises ValueError."""
    text = str(written)
    if text.startswith(PREFIX):
        return GammaTable(read_steps(text))
    if text.startswith(ADAPTIVE):
        rule = read_rule(text)
        return next(policy(rule) for kind, policy in _RULES.values() if isinstance(rule, kind))
    if not text.removeprefix("-").isdecimal():
        raise ValueError(f"expected a gamma such as 4, {PREFIX}1=4+9=0 or {ADAPTIVE}threshold; got {written!r}.")
    return FixedGamma(int(text))


def read_rule(written: str) -> Any:
    """The settings in `adaptive:threshold+max=5+on=drafted`, a ThresholdRule here. Raises ValueError."""
    name, _, settings = written.removeprefix(ADAPTIVE).partition("+")
    if name not in _RULES:
        raise ValueError(f"no adaptive rule {name!r}. There are: {', '.join(ADAPTIVE + rule for rule in RULES)}.")
    return _read(name, _RULES[name][0], settings)


def _read(name: str, rule: type[Any], text: str) -> Any:
    """Settings as they are written, `max=5+on=drafted`."""
    defaults: dict[str, Any] = {f.name: f.default for f in fields(rule)}
    values: dict[str, Any] = {}
    for part in text.split("+") if text else ():
        key, _, value = part.partition("=")
        if key not in defaults or not value or key in values:
            known = ", ".join(f"{key}={default}" for key, default in defaults.items())
            raise ValueError(f"{ADAPTIVE}{name} takes, once each and joined by +: {known}; got {part!r}.")
        try:
            values[key] = type(defaults[key])(value)
        except ValueError:
            raise ValueError(f"{ADAPTIVE}{name}: {key} must be a number; got {value!r}.") from None
    if values.get("max", 1) < 1:
        raise ValueError(f"{ADAPTIVE}{name}: max must be at least 1; got {values['max']}.")
    try:
        return rule(**values)
    except ValueError as error:
        raise ValueError(f"{ADAPTIVE}{name}: {error}.") from None
