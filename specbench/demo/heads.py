"""The EAGLE-3 head that was trained for the demo target."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from specbench.demo.materialise import TOKEN_IDS, materialise
from specbench.demo.target import demo_target

if TYPE_CHECKING:
    from specbench.train.head_files import Layout

logger = logging.getLogger(__name__)

WEIGHTS = Path(__file__).parent / "weights" / "eagle3.safetensors"


def eagle3_head(layout: Layout = "safeailab", progress: Callable[[str], None] = logger.info) -> Path:
    """The head's directory in this layout; the first call makes it, and the demo target that it needs.

    Its lm_head is not stored: it is the target's rows for the head's tokens, times the gain of the target's last norm.
    Raises SpecbenchError as `demo_target` does.
    """
    target = demo_target(progress)

    def build(directory: Path) -> None:
        import torch
        from safetensors.torch import load_file

        from specbench.train.head_files import write_head

        tensors = load_file(WEIGHTS)
        token_ids = tensors.pop(TOKEN_IDS).to(torch.int64)
        write_head(directory, tensors, token_ids, target, layout, target.name)

    return materialise(WEIGHTS, layout, build)
