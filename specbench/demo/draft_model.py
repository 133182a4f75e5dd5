"""The draft model that was distilled from the demo target: five of its layers, kept as int8."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from specbench.demo.materialise import TOKEN_IDS, materialise
from specbench.demo.target import demo_target

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

WEIGHTS = Path(__file__).parent / "weights" / "draft_model.safetensors"
SCALE = ".scale"
"""What the scales of a tensor are named after it: [rows] float32, one for each row of an int8 matrix."""

Head = Literal["full", "reduced"]


def demo_draft_model(head: Head = "full", progress: Callable[[str], None] = logger.info) -> Path:
    """The draft model's directory; the first call makes it, and the demo target that it needs.

    head: `full` is an ordinary model with the target's whole vocabulary, which every engine loads; `reduced` speaks
    only the tokens that are frequent in answers, reads half the bytes a step, and is for the reference decoder
    Raises SpecbenchError as `demo_target` does.
    """
    target = demo_target(progress)

    def build(directory: Path) -> None:
        import torch
        from safetensors.torch import load_file

        from specbench.train.draft_files import write_draft_model, write_reduced

        packed = load_file(WEIGHTS)
        token_ids = packed.pop(TOKEN_IDS).to(torch.int64)
        if head == "full":
            write_draft_model(directory, dequantized(packed), target)
        else:
            write_reduced(directory, dequantized(packed), token_ids, target)

    return materialise(WEIGHTS, head, build)


def quantized(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices as int8 with a scale for each row, the rest as it is. tensors: by name, any float type"""
    import torch

    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() != 2:
            packed[name] = tensor
            continue
        scale = tensor.float().abs().amax(1).clamp_min(1e-12) / 127
        packed[name] = (tensor.float() / scale[:, None]).round().to(torch.int8)
        packed[name + SCALE] = scale
    return packed


def dequantized(packed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `quantized`, in bfloat16; whole numbers other than int8 stay what they are."""
    import torch

    def restored(name: str, tensor: Tensor) -> Tensor:
        if tensor.dtype == torch.int8:
            tensor = tensor * packed[name + SCALE][:, None]
        return tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor

    return {name: restored(name, tensor) for name, tensor in packed.items() if not name.endswith(SCALE)}
