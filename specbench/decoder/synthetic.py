"""Acceptance made up at given rates, to price a drafter that does not exist yet: all work is done, the verdict thrown.

What comes out is not the target's: drafted tokens are emitted that it would not have chosen.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.decoder import noise
from specbench.decoder.rates import PREFIX, check_rates
from specbench.decoder.verify import leading


class SyntheticAcceptance:
    """rates: P(position k is kept, given that all before it were), one per position or one for all of gamma's"""

    def __init__(self, rates: tuple[float, ...], gamma: int, device: torch.device) -> None:
        check_rates(rates, gamma)
        self._text = PREFIX + ",".join(f"{rate:g}" for rate in rates)
        self._rates = torch.tensor([*rates, *rates[-1:] * gamma][:gamma], dtype=torch.float32, device=device)

    def __str__(self) -> str:
        return self._text

    def kept(self, draft: Tensor, seeds: Tensor, positions: Tensor) -> Tensor:
        """How many drafted tokens each row keeps, [B] int64; the same for the same seeds and positions.

        draft [B, γ] int64, -1 = none · seeds [B] int64 · positions [B, γ+1] int64, as for `verify.rejection`
        """
        width = draft.shape[1]
        u = noise.uniform(seeds, positions[:, :width], noise.SYNTHETIC)
        return leading((u < self._rates[:width]) & (draft >= 0))
