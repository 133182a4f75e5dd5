"""EAGLE-1 and MTP heads that learn: both fuse a token with what the target's own head reads, and speak through it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.config import ModelConfig
from specbench.train.batches import TrainingBatch
from specbench.train.chain_module import ChainModule
from specbench.train.lessons import target_rows

OTHERS = 2048
"""Tokens outside the compared vocabulary that each batch draws: these heads speak the whole vocabulary when they
decode, so that all others have to learn to be unlikely."""

NOISE = 0.1
"""EAGLE-1's features are trained with noise from U(-0.1, 0.1), against what the head's own errors do to its later steps
(Li et al., 2024, section 4)."""

TOKEN_LOSS = 0.1
"""What EAGLE-1's loss on tokens weighs beside that on features (section 3.2 there)."""


class FusedModule(ChainModule):
    """fc reads [embedding ; features], in this order, as both methods' published heads do."""

    def __init__(self, config: ModelConfig, checkpoint: Checkpoint, token_ids: Tensor) -> None:
        h = config.hidden_size
        super().__init__(config, checkpoint, token_ids, folded=False, width=h)
        self.fc = nn.Linear(2 * h, h, bias=False)
        self.initialise(self.fc)
        rows = self.embeddings if config.tied_embeddings else target_rows(config, checkpoint).float()
        self.all_rows: Tensor
        self.others: Tensor
        self.register_buffer("all_rows", rows, persistent=False)
        self.register_buffer("others", (self.draft_ids < 0).nonzero().flatten(), persistent=False)

    def features(self, batch: TrainingBatch) -> Tensor:
        return self.final(batch.hidden[:, :-1, -1])

    def vocabulary(self, batch: TrainingBatch) -> Tensor:
        drawn = self.others[torch.randperm(len(self.others), generator=_generator(batch))[:OTHERS]]
        return torch.cat([self.head, self.all_rows[drawn]])


class MtpModule(FusedModule):
    """Its last norm begins by giving its input the size of what the target's head reads."""

    def __init__(self, config: ModelConfig, checkpoint: Checkpoint, token_ids: Tensor) -> None:
        super().__init__(config, checkpoint, token_ids)
        self.embedding_norm, self.hidden_norm, self.input_layernorm, self.norm = (
            nn.RMSNorm(config.hidden_size, config.rms_norm_eps) for _ in range(4)
        )
        assert self.gain is not None
        with torch.no_grad():
            self.norm.weight.fill_(self.gain.square().mean().sqrt())

    def enter(self, tokens: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        embedded = self.embedding_norm(F.embedding(tokens, self.embeddings))
        u = self.fc(torch.cat([embedded, self.hidden_norm(hidden)], -1))
        return self.input_layernorm(u), u

    def leave(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x)
        return normed


class EagleModule(FusedModule):
    """Trained on single steps from the target's own features, made noisy: to give out the target's next features
    (smooth L1), and through the target's head its next token."""

    def steps(self, progress: float) -> int:
        return 1

    def features(self, batch: TrainingBatch) -> Tensor:
        features = super().features(batch)
        if not torch.is_grad_enabled():  # judged, not trained
            return features
        noise = torch.rand(features.shape, generator=_generator(batch)).to(features.device)
        return features + NOISE * (2 * noise - 1)

    def enter(self, tokens: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        u = self.fc(torch.cat([F.embedding(tokens, self.embeddings), hidden], -1))
        return u, u

    def leave(self, x: Tensor) -> Tensor:
        return x

    def loss(self, token_loss: Tensor, hidden: Tensor, ahead: Tensor) -> Tensor:
        return F.smooth_l1_loss(hidden, self.final(ahead)) + TOKEN_LOSS * token_loss


def _generator(batch: TrainingBatch) -> torch.Generator:
    """A batch always draws the same, so that a resumed training is the same training."""
    return torch.Generator().manual_seed(int(batch.tokens.sum()))
