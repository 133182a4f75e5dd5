"""`--drafter`: the demo's own, a directory, or a model on the Hugging Face hub; always a directory in the end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from specbench.errors import SpecbenchError
from specbench.target import resolve_target

logger = logging.getLogger(__name__)


def resolve_drafter(method: str, name: str, progress: Callable[[str], None] = logger.info) -> Path:
    """The absolute directory of the weights that `name` means for this method, fetched or made if need be.

    name: `demo` (what was trained for the demo target), an existing directory, or a hub id
    progress: gets a sentence before each long step
    Raises SpecbenchError where there are no such weights, or no way to them.
    """
    if name != "demo":
        return resolve_target(name, progress)
    if method != "eagle3":
        raise SpecbenchError(
            f"there is no demo drafter for method {method}, only for eagle3: --drafter eagle3=demo. "
            f"Give a directory: --drafter {method}=DIRECTORY."
        )
    from specbench.demo.heads import eagle3_head

    return eagle3_head(progress=progress)
