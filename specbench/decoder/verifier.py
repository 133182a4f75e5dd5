"""Which way of verifying judges a draft: that of the engine, for chains and for trees, greedy or sampled."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from specbench.decoder import noise, verify, verify_tree
from specbench.decoder.batch import Batch
from specbench.decoder.drafters.base import Draft
from specbench.decoder.sampling import warp
from specbench.decoder.synthetic import SyntheticAcceptance
from specbench.decoder.tree import Tree
from specbench.decoder.verify import Verified

Verification = Literal["rejection", "block", "coupled", "typical"]

DRAFT_STREAMS = {"rejection": noise.DRAFT, "block": noise.BLOCK, "coupled": noise.TARGET, "typical": noise.DRAFT}
"""The noise that a sampling drafter may draw from under each."""


class Verifier:
    """verification: as in `Engine` · acceptance: made up in the place of the verdict; None for a real one"""

    def __init__(self, verification: Verification, acceptance: SyntheticAcceptance | None) -> None:
        self._verification, self._acceptance = verification, acceptance

    def verify(self, batch: Batch, logits: Tensor, draft: Draft) -> Verified:
        """What each row keeps. logits [B, 1 + g, V], the target's after the newest token and each drafted one"""
        return self.verify_at(batch, logits, draft, next_position=batch.on_device(batch.lengths()))

    def verify_at(self, batch: Batch, logits: Tensor, draft: Draft, next_position: Tensor) -> Verified:
        """The same. next_position [B] int64, the position of the token after the newest"""
        if draft.tree is not None:
            return self._tree(batch, logits, draft.tokens, draft.tree, next_position)
        if batch.warp.all_greedy and self._acceptance is None:
            return self._greedy(logits, draft.tokens, None)  # nothing else is launched
        tokens, seeds = draft.tokens, batch.seeds
        positions = next_position[:, None] + torch.arange(1 + draft.width, device=batch.device)
        imposed = None if self._acceptance is None else self._acceptance.kept(tokens, seeds, positions)
        if batch.warp.all_greedy:
            return self._greedy(logits, tokens, imposed)
        if self._verification == "rejection":
            return self._rejection(batch, logits, draft, positions, imposed)
        p = warp(logits, batch.warp)
        match self._verification:
            case "block":
                return verify.block(p, draft.probs, tokens, seeds, positions, imposed)
            case "coupled":
                return verify.coupled(p, tokens, seeds, positions, imposed)
            case "typical":
                return verify.typical(p, tokens, seeds, positions, imposed)

    # From logits, as `KernelVerifier` does these two; the others begin with probabilities.

    def _greedy(self, logits: Tensor, tokens: Tensor, imposed: Tensor | None) -> Verified:
        return verify.greedy(logits.argmax(-1), tokens, imposed)

    def _rejection(
        self, batch: Batch, logits: Tensor, draft: Draft, positions: Tensor, imposed: Tensor | None
    ) -> Verified:
        p = warp(logits, batch.warp)
        return verify.rejection(p, draft.probs, draft.tokens, batch.seeds, positions, imposed)

    def _tree(self, batch: Batch, logits: Tensor, tokens: Tensor, tree: Tree, next_position: Tensor) -> Verified:
        if batch.warp.all_greedy:
            return verify_tree.greedy(logits.argmax(-1), tokens, tree)
        p = warp(logits, batch.warp)
        if self._verification == "typical":
            return verify_tree.typical(p, tokens, tree, batch.seeds, next_position)
        stream = noise.TARGET if self._verification == "coupled" else noise.RESIDUAL
        return verify_tree.sampled(p, tokens, tree, batch.seeds, next_position, stream)


def verifier_for(verification: Verification, acceptance: SyntheticAcceptance | None, *, on_kernels: bool) -> Verifier:
    """On the kernels, as its target is, or in PyTorch."""
    if on_kernels:
        from specbench.decoder.kernels.verifier import KernelVerifier  # which imports Triton

        return KernelVerifier(verification, acceptance)
    return Verifier(verification, acceptance)
