"""What the figures were measured on."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import torch


def describe(device: torch.device) -> dict[str, Any]:
    """Device, memory and versions; None for a package that is not here."""
    found: dict[str, Any] = {
        "device": platform.processor() or platform.machine(),
        "memory_bytes": None,
        "compute_capability": None,
        "cuda": torch.version.cuda,
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version()}
        | {name: _version(name) for name in ("torch", "triton", "transformers", "numpy")},
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {
            "device": properties.name,
            "memory_bytes": properties.total_memory,
            "compute_capability": f"{properties.major}.{properties.minor}",
        }
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
