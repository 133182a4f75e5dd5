"""Medusa heads that learn: each predicts the target's own choice at one distance (Cai et al., 2024, section 2.2.1)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.config import ModelConfig
from specbench.train.batches import TrainingBatch
from specbench.train.lessons import Chains, HeadModule, StepResult, take

HEADS = 4


class MedusaModule(HeadModule):
    """A residual block per head; all speak through the target's own rows, frozen, so that they need no storage.

    The blocks begin at zero: every head begins as the target's own.
    """

    def __init__(self, config: ModelConfig, checkpoint: Checkpoint, token_ids: Tensor) -> None:
        super().__init__(config, checkpoint, token_ids, folded=False)
        self.blocks = nn.ModuleList(nn.Linear(config.hidden_size, config.hidden_size) for _ in range(HEADS))
        for parameter in self.blocks.parameters():
            nn.init.zeros_(parameter)

    def steps(self, progress: float) -> int:
        return HEADS

    def forward(self, batch: TrainingBatch, steps: int) -> list[StepResult]:
        """The results of the first `steps` heads, head k's as draft step k."""
        chains = Chains.of(batch)
        h = self.final(take(batch.hidden[:, :, -1], chains.at))
        targets = self.targets(batch, chains, steps, self.head)
        followed, results = torch.ones_like(chains.at, dtype=torch.bool), []
        for step, block in enumerate(list(self.blocks)[:steps]):
            wanted = batch.tokens.gather(1, (chains.at + 2 + step).clamp_max(batch.tokens.shape[1] - 1))
            hidden = h + F.silu(block(h))
            result, hit = self.mark(hidden, wanted, chains.valid(step), targets[:, step:], followed, self.head)
            followed = followed & hit
            results.append(result)
        return results
