"""Triton kernels for NVIDIA GPUs, each beside its twin in plain PyTorch. Without Triton nothing here is imported.

They are asked for (`USES`), for no GPU has run them yet. A model that is to use them asks `usable` once, when it is
loaded; everything else follows from that (`layers.py`, `verifier.py`).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from specbench.decoder.cache import CacheView

USES = ("off", "auto")
"""PyTorch alone; or kernels and CUDA graphs wherever `usable` says that they run."""

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

MAX_ROWS = 64
"""Queries per key-value head that attention takes. With more, a prompt's, each tile would be too large for this."""


def usable(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether models on this device, in this precision, run on the kernels: NVIDIA's GPUs from Ampere on."""
    return (
        device.type == "cuda"
        and torch.version.cuda is not None
        and torch.cuda.get_device_capability(device) >= (8, 0)
        and dtype in DTYPES
        and find_spec("triton") is not None
    )


def fits(head_dim: int) -> bool:
    """Whether a model's layers do: a tile's sides are powers of two, and of at least 16 for a GPU's matrix units."""
    return head_dim >= 16 and head_dim & (head_dim - 1) == 0


def takes(view: CacheView) -> bool:
    """Whether attention over this view is for the kernel: of few queries, whose sight is told by positions."""
    return view.branches is None and view.positions.shape[1] * view.group <= MAX_ROWS
