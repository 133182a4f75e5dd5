"""The heads that were trained for the demo target."""

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

INT8 = ("eagle", "medusa", "mtp")
"""Methods whose heads are kept as int8, with a scale for each row."""


def weights(method: str) -> Path:
    """The package's file of one of `INT8`."""
    return WEIGHTS.with_stem(method)


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


def int8_head(method: str, progress: Callable[[str], None] = logger.info) -> Path:
    """The directory of one of `INT8`; the first call makes it, and the demo target that it needs.

    What they read and speak through is the target's and is not stored.
    Raises SpecbenchError as `demo_target` does.
    """
    target = demo_target(progress)

    def build(directory: Path) -> None:
        from safetensors.torch import load_file

        from specbench.demo.draft_model import dequantized
        from specbench.train.published import write_published

        write_published(method, directory, dequantized(load_file(weights(method))), target, target.name)

    return materialise(weights(method), "head", build)
