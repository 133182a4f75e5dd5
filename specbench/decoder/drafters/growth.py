"""Growing a draft that branches, depth by depth, from the likeliest tokens after each node that is to have children.

No chance is involved: the same thoughts of a drafter give the same tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.decoder.drafters.base import Draft
from specbench.decoder.tree import Tree
from specbench.decoder.tree_shape import DynamicTree, StaticTree, TreeShape


@dataclass(frozen=True, slots=True)
class Frontier:
    """The nodes that are to have children next; what follows each is for the drafter to say.

    tokens:  [B, f] int64
    parents: [B, f] int64, which node of the frontier before each hangs from; at first that is the root alone
    seen:    [B, f, t] bool: of the nodes of all frontiers so far, in order, those on its way from the root and itself
    """

    tokens: Tensor
    parents: Tensor
    seen: Tensor


class Growth(ABC):
    """breadth: how many tokens after each node of the frontier it wants to know"""

    breadth: int

    def __init__(self, batch: int, device: torch.device) -> None:
        self._seen = torch.empty(batch, 1, 0, dtype=torch.bool, device=device)

    @abstractmethod
    def grow(self, tokens: Tensor, log_probs: Tensor) -> Frontier:
        """One depth more. tokens [B, f, k] int64, after each node of the frontier the likeliest, in order · log_probs
        [B, f, k], what the drafter gives each of them there"""

    @abstractmethod
    def draft(self, limits: Sequence[int]) -> Draft:
        """The tree as it is, no row's deeper than its limit."""

    def _frontier(self, tokens: Tensor, parents: Tensor) -> Frontier:
        batch, width = tokens.shape
        before = self._seen.gather(1, parents[:, :, None].expand(-1, -1, self._seen.shape[2]))
        itself = torch.eye(width, dtype=torch.bool, device=tokens.device).expand(batch, -1, -1)
        self._seen = torch.cat([before, itself], 2)
        return Frontier(tokens, parents, self._seen)


def begin(shape: TreeShape, batch: int, device: torch.device) -> Growth:
    """With the roots alone."""
    return _Dynamic(shape, batch, device) if isinstance(shape, DynamicTree) else _Static(shape, batch, device)


class _Dynamic(Growth):
    """A node's score is the logarithm of the product of the drafter's probabilities from the root to it."""

    def __init__(self, shape: DynamicTree, batch: int, device: torch.device) -> None:
        super().__init__(batch, device)
        self.breadth, self._nodes = shape.top_k, shape.nodes
        # Of the frontier, [B, f]: place among all nodes, the root's 0 first, and score.
        self._places = torch.zeros(batch, 1, dtype=torch.int64, device=device)
        self._scores = torch.zeros(batch, 1, device=device)
        # Of all nodes, a tensor [B, n] for each depth: token, place of the parent, score.
        self._grown: list[tuple[Tensor, Tensor, Tensor]] = []

    def grow(self, tokens: Tensor, log_probs: Tensor) -> Frontier:
        breadth, count = tokens.shape[2], sum(level[0].shape[1] for level in self._grown)
        parents = self._places[:, :, None].expand_as(tokens).flatten(1)
        scores = (self._scores[:, :, None] + log_probs).flatten(1)
        flat = tokens.flatten(1)
        self._grown.append((flat, parents, scores))
        best = scores.topk(min(self.breadth, scores.shape[1])).indices
        self._places, self._scores = 1 + count + best, scores.gather(1, best)
        return self._frontier(flat.gather(1, best), best // breadth)

    def draft(self, limits: Sequence[int]) -> Draft:
        tokens, parents, scores = (torch.cat(each, 1) for each in zip(*self._grown, strict=True))
        depths = [depth for depth, level in enumerate(self._grown, 1) for _ in range(level[0].shape[1])]
        fits = _fits(depths, limits, tokens.device)
        # No node is likelier than its parent, and of equals the sort keeps the earlier one first: no orphans.
        best = scores.masked_fill(~fits, -torch.inf).sort(dim=1, descending=True, stable=True).indices
        chosen = best[:, : self._nodes].sort(1).values
        columns = tokens.new_zeros(tokens.shape[0], 1 + tokens.shape[1])
        columns.scatter_(1, 1 + chosen, torch.arange(1, 1 + chosen.shape[1], device=tokens.device).expand_as(chosen))
        return Draft(
            tokens.where(fits, -1).gather(1, chosen),
            tree=Tree.of(columns.gather(1, parents.gather(1, chosen)), len(self._grown)),
        )


class _Static(Growth):
    def __init__(self, shape: StaticTree, batch: int, device: torch.device) -> None:
        super().__init__(batch, device)
        self.breadth = 1 + max(path[-1] for path in shape.paths)
        self._paths = shape.paths
        self._grown: list[Tensor] = []
        self._inner: list[tuple[int, ...]] = [()]

    def grow(self, tokens: Tensor, log_probs: Tensor) -> Frontier:
        depth = len(self._grown) + 1
        level = [path for path in self._paths if len(path) == depth]
        parents, ranks = [self._inner.index(path[:-1]) for path in level], [path[-1] for path in level]
        grown = tokens[:, parents, ranks]
        self._grown.append(grown)
        have_children = {path[:-1] for path in self._paths if len(path) == depth + 1}
        inner = [place for place, path in enumerate(level) if path in have_children]
        self._inner = [level[place] for place in inner]
        above = torch.tensor([parents[place] for place in inner], dtype=torch.int64, device=tokens.device)
        return self._frontier(grown[:, inner], above.expand(tokens.shape[0], -1))

    def draft(self, limits: Sequence[int]) -> Draft:
        paths = [path for path in self._paths if len(path) <= len(self._grown)]
        tokens = torch.cat(self._grown, 1)
        column = {path: 1 + place for place, path in enumerate(paths)} | {(): 0}
        parents = torch.tensor([column[path[:-1]] for path in paths], device=tokens.device)
        fits = _fits([len(path) for path in paths], limits, tokens.device)
        return Draft(tokens.where(fits, -1), tree=Tree.of(parents.repeat(tokens.shape[0], 1), len(self._grown)))


def _fits(depths: Sequence[int], limits: Sequence[int], device: torch.device) -> Tensor:
    """Whether a node of depths[i] is within a row's limit, [B, N] bool."""
    return torch.tensor(depths, device=device) <= torch.tensor(limits, device=device)[:, None]
