"""How many tokens a replica's KV cache holds, with and without a drafter beside the target."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import Gpu
from specbench.planning.shape import ModelShape

_USED = 0.9
"""Share of the memory that engines take."""
_RESERVE = 3 * 2**30
"""Bytes per GPU for activations, CUDA graphs and the input embedding."""

NOT_SAID = 10**9
"""Tokens of a cache that no one knows the size of: it is never the limit."""


@dataclass(frozen=True, slots=True)
class DrafterSize:
    """weights: bytes;  kv_bytes_per_token: of its own cache"""

    weights: float = 0.0
    kv_bytes_per_token: float = 0.0


def drafter_size(method: str, target: ModelShape) -> DrafterSize:
    """What is usual beside such a target.

    A head with a layer of its own (EAGLE, MTP): that layer, its output head and projections in 16 bits, about two
    layers' parameters, and one layer's cache. Medusa's heads keep no cache. A draft model: a tenth of the target. A
    lookup takes nothing of the device's memory.
    """
    layer = 2 * target.shared / target.layers
    match method:
        case "eagle3" | "eagle" | "mtp":
            return DrafterSize(2 * layer, target.kv_bytes_per_token / target.layers)
        case "medusa":
            return DrafterSize(2 * layer)
        case "draft_model" | "ssd":
            return DrafterSize(0.1 * weight_bytes(target), 0.1 * target.kv_bytes_per_token)
        case _:
            return DrafterSize()


def weight_bytes(shape: ModelShape) -> float:
    return (shape.shared + shape.experts) * shape.weight_bytes


def kv_tokens(shape: ModelShape, drafter: DrafterSize, memory: float, count: int) -> int:
    """K = (memory · u − weights − drafter's − reserve) / (κ + κ_d), over `count` devices of `memory` bytes each; 0 or
    less where the weights do not fit.
    """
    room = count * (_USED * memory - _RESERVE) - weight_bytes(shape) - drafter.weights
    return int(room / (shape.kv_bytes_per_token + drafter.kv_bytes_per_token))


def cache_tokens(shape: ModelShape, method: str, gpu: Gpu, count: int) -> int:
    """The same beside what is usual for a method. Raises SpecbenchError where there is no room for a token."""
    drafter = drafter_size(method, shape)
    tokens = kv_tokens(shape, drafter, gpu.memory, count)
    if tokens < 1:
        beside = " and the drafter" if drafter.weights else ""
        where = f"{count} × {gpu.name}" if count > 1 else gpu.name
        raise SpecbenchError(
            f"the weights ({weight_bytes(shape) / 2**30:.0f} GiB){beside} leave no room for a KV cache on {where} "
            f"({count * gpu.memory / 2**30:.0f} GiB): more GPUs to a replica (--gpu-count), or fewer bits (--dtype "
            "fp8)."
        )
    return tokens
