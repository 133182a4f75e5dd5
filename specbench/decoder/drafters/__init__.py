"""Methods of speculation, one file each. A new method is one file with a `load` and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specbench.decoder.drafters.base import Drafter, DrafterContext

METHODS = {
    "none": "specbench.decoder.drafters.none",
    "ngram": "specbench.decoder.drafters.ngram",
    "suffix": "specbench.decoder.drafters.suffix",
    "draft_model": "specbench.decoder.drafters.draft_model",
    "layer_skip": "specbench.decoder.drafters.layer_skip",
    "ssd": "specbench.decoder.drafters.ssd",
    "eagle3": "specbench.decoder.drafters.eagle3",
    "eagle": "specbench.decoder.drafters.eagle",
    "medusa": "specbench.decoder.drafters.medusa",
    "mtp": "specbench.decoder.drafters.mtp",
}

CONFIDENT = ("draft_model", "layer_skip", "eagle3", "eagle", "medusa", "mtp")
"""Those whose drafter knows how likely its tokens are, and so can stop where it is unsure (`stop_below`)."""

BRANCHING = ("eagle3", "eagle", "medusa", "mtp")
"""Those that can draft trees."""


def load_drafter(method: str, context: DrafterContext) -> Drafter:
    """The drafter of this method. Raises ValueError for an unknown method, or weights that don't fit the target."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}. Choose from: {', '.join(METHODS)}.")
    if context.stop_below is not None and method not in CONFIDENT:
        raise ValueError(f"{method} does not stop where it is unsure: that is for {', '.join(CONFIDENT)}.")
    if context.tree is not None and method not in BRANCHING:
        raise ValueError(f"{method} drafts chains, no trees: these are for {', '.join(BRANCHING)}.")
    if context.tree is not None and context.stop_below is not None:
        raise ValueError("a tree has no end where the drafter is unsure: leave adaptive:confidence or the tree out.")
    if context.cached_requests and method != "suffix":
        raise ValueError(f"{method} keeps no earlier responses: that is for suffix.")
    drafter: Drafter = import_module(METHODS[method]).load(context)
    return drafter
