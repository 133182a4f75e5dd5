"""`--drafter`: the demo's own, a directory, or a model on the Hugging Face hub; always a directory in the end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from specbench.demo import draft_model, heads
from specbench.demo.materialise import place
from specbench.errors import SpecbenchError
from specbench.target import resolve_target

logger = logging.getLogger(__name__)


def resolve_drafter(method: str, name: str, progress: Callable[[str], None] = logger.info) -> Path:
    """The absolute directory of the weights that `name` means for this method, fetched or made if need be.

    name: `demo` (what was trained for the demo target), `demo-reduced` (the demo's draft model with a small head, for
        the reference decoder), an existing directory, or a hub id
    progress: gets a sentence before each long step
    Raises SpecbenchError where there are no such weights, or no way to them.
    """
    check_drafter_name(method, name)
    match method, name:
        case "eagle3", "demo":
            return heads.eagle3_head(progress=progress)
        case (("eagle" | "medusa" | "mtp"), "demo"):
            return heads.int8_head(method, progress)
        case (("draft_model" | "ssd"), "demo"):
            return draft_model.demo_draft_model("full", progress)
        case (("draft_model" | "ssd"), "demo-reduced"):
            return draft_model.demo_draft_model("reduced", progress)
    return resolve_target(name, progress)


def check_drafter_name(method: str, name: str) -> None:
    """Raises SpecbenchError for a drafter of the demo that this method does not have."""
    if name in ("demo", "demo-reduced") and demo_drafter_path(method, name) is None:
        raise SpecbenchError(
            f"there is no drafter {name} for method {method}; there are eagle3=demo, eagle=demo, medusa=demo, "
            f"mtp=demo, draft_model=demo and draft_model=demo-reduced (ssd has the same two). Give a directory: "
            f"--drafter {method}=DIRECTORY."
        )


def demo_drafter_path(method: str, name: str) -> Path | None:
    """Where a drafter of the demo is, or will be once it is used; None for another name."""
    match method, name:
        case "eagle3", "demo":
            return place(heads.WEIGHTS, "safeailab")
        case (("eagle" | "medusa" | "mtp"), "demo"):
            return place(heads.weights(method), "head")
        case (("draft_model" | "ssd"), "demo"):
            return place(draft_model.WEIGHTS, "full")
        case (("draft_model" | "ssd"), "demo-reduced"):
            return place(draft_model.WEIGHTS, "reduced")
    return None
