"""Points that a user asks to be predicted, such as `batch_size=16,gamma=3`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from specbench.errors import SpecbenchError
from specbench.planning.cells import Observation, Point

_KEYS = ("batch_size", "gamma", "method", "workload", "prompt_tokens", "output_tokens")


def asked_points(wanted: Mapping[str, str], observations: Sequence[Observation], flag: str) -> list[Point]:
    """One point per workload and method of the run that fits what is asked; lengths are the run's unless given.

    Raises SpecbenchError for an unknown key, a value that is none, or what the run has no arm for.
    """
    if unknown := set(wanted) - set(_KEYS):
        raise SpecbenchError(f"{flag}: {min(unknown)!r} is not known; it takes {', '.join(_KEYS)}.")
    if "batch_size" not in wanted or "gamma" not in wanted:
        raise SpecbenchError(f"{flag}: give both, as in batch_size=16,gamma=3.")
    batch_size, gamma = _whole(wanted, "batch_size", 1, flag), _whole(wanted, "gamma", 0, flag)
    prompt = _whole(wanted, "prompt_tokens", 1, flag) if "prompt_tokens" in wanted else None
    output = _whole(wanted, "output_tokens", 2, flag) if "output_tokens" in wanted else None
    seen = [o.point for o in observations]
    arms = {(p.workload, p.method): p for p in seen if p.gamma or gamma == 0}
    if gamma == 0:
        arms = {(p.workload, p.plain.method): p.plain for p in seen}
    fitting = [
        p
        for p in arms.values()
        if wanted.get("method", p.method) == p.method and wanted.get("workload", p.workload) == p.workload
    ]
    if not fitting:
        there = ", ".join(f"{workload} with {method}" for workload, method in arms) or "plain decoding alone"
        raise SpecbenchError(f"{flag}: the run has no such arm; it has {there}.")
    return [
        replace(
            p,
            batch_size=batch_size,
            gamma=gamma,
            prompt_tokens=prompt or p.prompt_tokens,
            output_tokens=output or p.output_tokens,
        )
        for p in fitting
    ]


def _whole(wanted: Mapping[str, str], name: str, least: int, flag: str) -> int:
    try:
        value = int(wanted[name])
    except ValueError:
        value = least - 1
    if value < least:
        raise SpecbenchError(f"{flag}: {name} must be a whole number, {least} or more; got {wanted[name]!r}.")
    return value
