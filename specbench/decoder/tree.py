"""Drafts that branch: several guesses at each place, of which verification follows at most one branch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True, slots=True)
class Tree:
    """Where each node of a draft hangs. Column 0 is the root, the row's newest token; drafted node i is column i + 1.

    parents:   [B, N] int64, the column of each node's parent, which comes before its children
    depths:    [B, 1 + N] int64, 0 for the root: a node's position is the root's and its depth
    ancestors: [B, 1 + N, 1 + N] bool; [b, i, j] where j is i or lies above it
    depth:     no node lies deeper
    """

    parents: Tensor
    depths: Tensor
    ancestors: Tensor
    depth: int

    @classmethod
    def of(cls, parents: Tensor, depth: int) -> Tree:
        batch, nodes = parents.shape
        up = pad(parents, (1, 0))  # the root is its own parent
        ancestors = torch.eye(1 + nodes, dtype=torch.bool, device=parents.device).repeat(batch, 1, 1)
        depth, above = min(depth, nodes), up
        for _ in range(depth):
            ancestors.scatter_(2, above[:, :, None], True)
            above = up.gather(1, above)
        return cls(parents, ancestors.sum(2) - 1, ancestors, depth)

    def unbroken(self, kept: Tensor) -> Tensor:
        """Whether a node and all above it are kept; the root always is. kept [B, N] bool -> [B, 1 + N] bool"""
        return ~(self.ancestors & ~pad(kept, (1, 0), value=True)[:, None]).any(2)

    def path(self, last: Tensor) -> Tensor:
        """The columns on the way from the root (not included) to column last[b]; past it k + 1 at place k.

        last [B] int64 -> [B, depth] int64
        """
        batch, columns = self.depths.shape
        on_the_way = self.ancestors[torch.arange(batch, device=last.device), last]
        places = self.depths.where(on_the_way, self.depth + 1)  # the others all go to a place that is thrown away
        path = torch.arange(self.depth + 2, device=last.device).repeat(batch, 1)
        path.scatter_(1, places, torch.arange(columns, device=last.device).expand(batch, -1))
        return path[:, 1:-1]
