"""The memory roof: a decoding step reads every weight once, so steps per second have an upper bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specbench.analysis.marks import Mark
from specbench.hardware.catalogue import shipped_bandwidth

_SLACK = 1.05


@dataclass(frozen=True, slots=True)
class Roof:
    """What bounds the passes of a run's servers; None where it is not known.

    read_bytes: weights that every pass must read;  bandwidth: bytes per second of one server's GPUs together
    """

    read_bytes: int | None = None
    bandwidth: float | None = None

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Roof:
        return cls(manifest.get("weight_bytes_per_pass"), _bandwidth(manifest))


NO_ROOF = Roof()


def above_memory_roof(steps_per_s: float | None, batch_size: int, roof: Roof) -> Mark | None:
    """steps_per_s: steps of single sequences, of which one pass of the engine makes `batch_size` at most."""
    if not steps_per_s or not roof.read_bytes or not roof.bandwidth:
        return None
    passes = steps_per_s / batch_size
    if passes * roof.read_bytes <= roof.bandwidth * _SLACK:
        return None
    return Mark(
        "above_memory_roof",
        f"Impossible: {passes:.0f} passes per second over weights of {roof.read_bytes / 2**30:.1f} GiB need "
        f"{passes * roof.read_bytes / 1e12:.1f} TB/s, and the device has {roof.bandwidth / 1e12:.1f}.",
    )


def _bandwidth(manifest: Mapping[str, Any]) -> float | None:
    """Of the GPUs that one server of the run has; None where one of them is not known, and on a CPU."""
    config, gpus = manifest.get("config", {}), manifest.get("hardware", {}).get("gpus", [])
    if str(config.get("device", "cpu")) == "cpu" or not gpus:
        return None
    each = [shipped_bandwidth(str(gpu.get("name", ""))) or 0.0 for gpu in gpus]
    used = sorted(each, reverse=True)[: int(config.get("tensor_parallel") or 1)]
    return sum(used) if all(each) else None
