"""How drafts branch, as it is written: `8x60`, `static:4x2x1`, or `chain` where they do not. Without torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

CHAIN = "chain"
_STATIC = "static:"
_MOST_NODES = 1024
_SHAPE = re.compile(rf"({_STATIC})?[1-9]\d{{0,5}}(x[1-9]\d{{0,5}})*")


@dataclass(frozen=True, slots=True)
class DynamicTree:
    """Grown anew at every step (EAGLE-2; Li et al., 2024): at each depth the `top_k` likeliest nodes, by the product of
    the drafter's probabilities from the root on, get `top_k` children each; of all nodes the `nodes` likeliest are
    verified.
    """

    top_k: int
    nodes: int

    def width(self, gamma: int) -> int:
        """Entries of a draft of depth gamma in a cache, the target's or the drafter's, behind the newest token."""
        return max(self.nodes, self.top_k * gamma)


@dataclass(frozen=True, slots=True)
class StaticTree:
    """The same at every step (Medusa's choices; Cai et al., 2024).

    paths: each node by the ranks of its tokens from the root on: (0, 1) is the second choice after the first one.
           A node comes after all nodes that are less deep, and its parent is there. Raises ValueError where one is not.
    """

    paths: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        known = {(), *self.paths}
        if not self.paths or len(known) != 1 + len(self.paths) or list(self.paths) != sorted(self.paths, key=len):
            raise ValueError("a tree has at least one path, each once, the shorter ones first.")
        for path in self.paths:
            if path[:-1] not in known or path[-1] < 0:
                raise ValueError(f"path {path} has no parent in its tree, or no rank: ranks count from 0.")

    @classmethod
    def of_widths(cls, widths: Sequence[int]) -> StaticTree:
        """widths[d] children for every node of depth d"""
        ranks = [range(width) for width in widths]
        return cls(tuple(path for depth in range(len(widths)) for path in product(*ranks[: depth + 1])))

    @property
    def depth(self) -> int:
        return len(self.paths[-1])

    def width(self, gamma: int) -> int:
        """As for a dynamic tree."""
        return len(self.paths)


TreeShape = DynamicTree | StaticTree


def parse_tree(text: str) -> TreeShape | None:
    """`8x60`, dynamic: top-k by nodes; `static:4x2x1`: children of every node, depth by depth; `chain` is None.

    Raises ValueError.
    """
    if text == CHAIN:
        return None
    numbers = [int(n) for n in text.removeprefix(_STATIC).split("x")] if _SHAPE.fullmatch(text) else []
    if text.startswith(_STATIC) and 0 < sum(prod(numbers[: d + 1]) for d in range(len(numbers))) <= _MOST_NODES:
        return StaticTree.of_widths(numbers)
    if not text.startswith(_STATIC) and len(numbers) == 2 and max(numbers) <= _MOST_NODES:
        return DynamicTree(*numbers)
    raise ValueError(
        f"expected chain, 8x60 (the 8 likeliest of each depth branch, 60 nodes are verified) or static:4x2x1 (children "
        f"by depth), of at most {_MOST_NODES} nodes"
    )


def check_tree(tree: TreeShape | None, gamma: int, verification: str, synthetic: bool) -> None:
    """Raise ValueError for what does not go with drafts that branch."""
    if tree is None:
        return
    if isinstance(tree, StaticTree) and gamma != tree.depth:
        raise ValueError(f"this tree is {tree.depth} deep, and gamma is the depth: {tree.depth}, not {gamma}.")
    if verification == "block":
        raise ValueError("block verification is of chains: trees go with rejection, coupled and typical.")
    if synthetic:
        raise ValueError("acceptance is made up for chains alone: leave it or the tree out.")
