"""The EAGLE-3 head that was trained for the demo target: kept small in the package, made whole in the user's cache."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from specbench.cache import cache_dir
from specbench.demo.target import demo_target
from specbench.digest import file_sha256
from specbench.errors import SpecbenchError

if TYPE_CHECKING:
    from specbench.train.head_files import Layout

logger = logging.getLogger(__name__)

WEIGHTS = Path(__file__).parent / "weights" / "eagle3.safetensors"
TOKEN_IDS = "token_ids"
"""The tensor in `WEIGHTS` that is no weight: [V_d] int32, which of the target's tokens the head can say."""


def eagle3_head(layout: Layout = "safeailab", progress: Callable[[str], None] = logger.info) -> Path:
    """The head's directory in this layout; the first call makes it, and the demo target that it needs.

    Its lm_head is not stored: it is the target's rows for the head's tokens, times the gain of the target's last norm.
    Raises SpecbenchError as `demo_target` does.
    """
    target = demo_target(progress)
    directory = cache_dir() / "demo" / f"eagle3-{file_sha256(WEIGHTS)[:12]}" / layout
    if directory.is_dir():
        return directory
    import torch
    from safetensors.torch import load_file

    from specbench.train.head_files import write_head

    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="building-", dir=directory.parent) as folder:
            built = Path(folder, layout)
            built.mkdir()
            tensors = load_file(WEIGHTS)
            token_ids = tensors.pop(TOKEN_IDS).to(torch.int64)
            write_head(built, tensors, token_ids, target, layout, target.name)
            _put(built, directory)
    except OSError as error:
        raise SpecbenchError(
            f"cannot write the demo head to {directory.parent} ({error.strerror}). "
            "Free some space, or choose another cache with SPECBENCH_CACHE."
        ) from error
    return directory


def _put(built: Path, directory: Path) -> None:
    """Move it into place, unless another process was quicker: theirs is the same."""
    try:
        built.replace(directory)
    except OSError:
        if not directory.is_dir():
            raise
        shutil.rmtree(built)
