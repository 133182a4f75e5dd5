"""What several engines refuse of a launch in the same words, and how it is told that one resolved it otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from specbench.backends.base import Launch
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.speculation import OWN_HEAD, Speculation


def check_schedule(speculation: Speculation, engine: str, scheduled: Collection[str]) -> None:
    """Raises UnsupportedSpeculation where gamma follows the batch size, and does not with this method."""
    if speculation.schedule is not None and speculation.method not in scheduled:
        raise UnsupportedSpeculation(
            f"{engine} keeps one gamma for all batch sizes with {speculation.method}: --gamma {speculation.gamma}. "
            f"Schedules run with {', '.join(sorted(scheduled))}."
        )


def check_own_head(speculation: Speculation, engine: str) -> None:
    """Raises UnsupportedSpeculation where a head is given for a method whose head the target brings."""
    if speculation.method in OWN_HEAD and speculation.drafter is not None:
        raise UnsupportedSpeculation(
            f"{engine} is given no head for {speculation.method}: it runs the one that the target brings. "
            f"Leave --drafter {speculation.method}=… out, or use --backend reference."
        )


def check_verification(launch: Launch, engine: str) -> None:
    """Raises SpecbenchError for the reference decoder's own way of verifying."""
    if launch.verification != "rejection":
        raise SpecbenchError(
            f"{engine} has no {launch.verification} verification by this option, which is the reference decoder's. "
            "Leave --verification out (an engine's own ways are set with --engine-arg), or use --backend reference."
        )


def check_raw_logprobs(launch: Launch, engine: str) -> None:
    """Raises SpecbenchError where log-probabilities of what is sampled from are asked for."""
    if launch.logprobs != "raw":
        raise SpecbenchError(f"{engine} gives no processed log-probabilities here, which this check rests on.")


def check_on_gpu(launch: Launch, engine: str) -> None:
    """Raises SpecbenchError for another device than NVIDIA's."""
    if not launch.device.startswith("cuda"):
        raise SpecbenchError(f"{engine} speculates on NVIDIA GPUs alone, and is measured there: --device cuda.")


def device_number(device: str) -> int | None:
    """The N of cuda:N; None where the engine is to take the first that it sees."""
    _, _, number = device.partition(":")
    return int(number) if number else None


def nowhere(engine: str) -> SpecbenchError:
    """For a launch that names neither an environment nor an image."""
    return SpecbenchError(
        f"{engine} needs the interpreter of its environment or the image it is in: --python PATH, or --container IMAGE."
    )


def differing(resolved: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """A sentence for each setting that is not what was asked for."""
    return [
        f"{name} is {resolved.get(name)!r}, asked was {value!r}"
        for name, value in asked.items()
        if resolved.get(name) != value
    ]
