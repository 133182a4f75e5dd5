"""Verification on the kernels, from logits: greedy, and rejection at a temperature. The rest goes PyTorch's way."""

from __future__ import annotations

from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.drafters.base import Draft
from specbench.decoder.kernels.greedy import greedy
from specbench.decoder.kernels.rejection import rejection
from specbench.decoder.verifier import Verifier
from specbench.decoder.verify import Verified


class KernelVerifier(Verifier):
    """As `Verifier`."""

    def _greedy(self, logits: Tensor, tokens: Tensor, imposed: Tensor | None) -> Verified:
        return greedy(logits.contiguous(), tokens.contiguous(), imposed)

    def _rejection(
        self, batch: Batch, logits: Tensor, draft: Draft, positions: Tensor, imposed: Tensor | None
    ) -> Verified:
        rows, probs = batch.warp, draft.probs
        if rows.max_top_k > 0 or rows.any_top_p:
            return super()._rejection(batch, logits, draft, positions, imposed)
        return rejection(
            logits.contiguous(),
            None if probs is None else probs.contiguous(),
            draft.tokens.contiguous(),
            rows.temperature,
            batch.seeds,
            positions,
            imposed,
            warped=True,
        )
