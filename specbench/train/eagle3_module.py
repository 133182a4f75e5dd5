"""An EAGLE-3 head that learns: what enters and leaves its layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.config import ModelConfig
from specbench.decoder.models.eagle3_config import tap_layers
from specbench.train.batches import TrainingBatch
from specbench.train.chain_module import ChainModule


class Eagle3Module(ChainModule):
    """Both `fc_norm` and `norm_output` are on, so what a step hands to the next is as large as what the target's
    features were."""

    def __init__(self, config: ModelConfig, checkpoint: Checkpoint, token_ids: Tensor) -> None:
        h, taps = config.hidden_size, len(tap_layers(None, config.num_layers))
        super().__init__(config, checkpoint, token_ids, folded=True, width=2 * h)
        self.fc_norm = nn.ModuleList(nn.RMSNorm(h, config.rms_norm_eps) for _ in range(taps))
        self.fc = nn.Linear(taps * h, h, bias=False)
        self.input_layernorm, self.hidden_norm, self.norm = (nn.RMSNorm(h, config.rms_norm_eps) for _ in range(3))
        self.initialise(self.fc)

    def features(self, batch: TrainingBatch) -> Tensor:
        taps = batch.hidden[:, :-1, :-1]
        fused: Tensor = self.fc(torch.cat([norm(taps[..., i, :]) for i, norm in enumerate(self.fc_norm)], -1))
        return fused

    def enter(self, tokens: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        embedded = self.input_layernorm(F.embedding(tokens, self.embeddings))
        return torch.cat([embedded, self.hidden_norm(hidden)], -1), hidden

    def leave(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x)
        return normed
