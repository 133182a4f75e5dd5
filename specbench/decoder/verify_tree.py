"""Verification of drafts that branch: which branch each row follows and how far, and the token after it."""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.decoder import noise
from specbench.decoder.sampling import draw
from specbench.decoder.tree import Tree
from specbench.decoder.verify import Verified, is_typical


def greedy(target: Tensor, draft: Tensor, tree: Tree) -> Verified:
    """Follow the tokens that the target would have chosen itself, as far as there are nodes for them; go on with the
    target's choice.

    target [B, 1+N] int64, the target's token after the root and after every node · draft [B, N] int64, -1 = none
    """
    followed = tree.unbroken(draft == target.gather(1, tree.parents))
    return _follow(tree, tree.depths.where(followed, -1), target)


def sampled(p: Tensor, draft: Tensor, tree: Tree, seeds: Tensor, next_position: Tensor, stream: int) -> Verified:
    """Exact for a tree that was grown without chance: after every node the target's token is drawn, and followed.

    p [B, 1+N, V] target probabilities after the root and after every node · draft [B, N] int64, -1 = none ·
    seeds [B] int64 · next_position [B] int64, the position of the token after the root · stream: of the draws, RESIDUAL
    or TARGET; with plain decoding's own, a seed gives plain decoding's tokens

    A node is followed with the target's probability of its token. That is what sequential rejection of siblings comes
    to where each is chosen without chance (q = 1): the first is kept with probability p of it, else p is set to 0
    there and normalised, and the next one tried (EAGLE; Li et al., 2024).
    """
    return greedy(draw(p, _noise(p, tree, seeds, next_position, stream)), draft, tree)


def typical(p: Tensor, draft: Tensor, tree: Tree, seeds: Tensor, next_position: Tensor) -> Verified:
    """Not exact: follow the longest branch of tokens that are likely enough (`is_typical`), of equally long ones the
    likeliest. Arguments as for `sampled`.
    """
    there = p[torch.arange(p.shape[0], device=p.device)[:, None], tree.parents]
    followed = tree.unbroken(is_typical(there, draft))
    each = there.gather(2, draft.clamp_min(0)[:, :, None])[:, :, 0].log()
    joint = (tree.ancestors[:, :, 1:] * each[:, None].clamp_min(-1e30)).sum(2).exp()
    drawn = draw(p, _noise(p, tree, seeds, next_position, noise.RESIDUAL))
    return _follow(tree, (tree.depths + joint / 2).where(followed, -1), drawn)


def _noise(p: Tensor, tree: Tree, seeds: Tensor, next_position: Tensor, stream: int) -> Tensor:
    # Nodes of one depth share their position and so their noise: a row follows only one of them.
    positions = next_position[:, None] + torch.arange(1 + tree.depth, device=p.device)
    rows = torch.arange(p.shape[0], device=p.device)[:, None]
    return noise.exponential(seeds, positions, stream, p.shape[2])[rows, tree.depths]


def _follow(tree: Tree, preference: Tensor, following: Tensor) -> Verified:
    """preference [B, 1+N]: the column with the most is where a row stops · following [B, 1+N], the token after each"""
    last = preference.argmax(1)
    accepted, next_token = (x.gather(1, last[:, None])[:, 0] for x in (tree.depths, following))
    return Verified(accepted, next_token, tree.path(last))
