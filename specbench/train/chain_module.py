"""A head of one decoder layer that learns as it will be used: the training-time test (Li et al., 2025, section 3.2).

Step 0 reads the target's features; each later step reads the head's own output of the step before, one token further
on. A chain i is the pair of positions from which the drafts for token i+2, i+3, … are made; its step j sees the keys of
step 0 up to position i, and its own keys of steps 1 to j.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.config import ModelConfig
from specbench.decoder.models.rope import frequencies
from specbench.train.batches import TrainingBatch
from specbench.train.lessons import EMBEDDINGS, Chains, HeadModule, StepResult, take

STEPS = 3
FIRST_STEP_SHARE = 0.3
"""The share of the training that is spent on the first draft step alone: the others start from what it learned."""


class ChainModule(HeadModule):
    """What such heads share: the layer, and how a draft unrolls. What enters and leaves the layer is each one's own.

    width: of what its attention reads
    """

    embeddings: Tensor
    frequencies: Tensor

    def __init__(
        self, config: ModelConfig, checkpoint: Checkpoint, token_ids: Tensor, *, folded: bool, width: int
    ) -> None:
        super().__init__(config, checkpoint, token_ids, folded=folded)
        h, heads, kv_heads, d = config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim
        self.post_attention_layernorm = nn.RMSNorm(h, config.rms_norm_eps)
        self.q_proj = nn.Linear(width, heads * d, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * d, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * d, bias=False)
        self.o_proj = nn.Linear(heads * d, h, bias=False)
        self.gate_proj = nn.Linear(h, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(h, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, h, bias=False)
        self.register_buffer("embeddings", checkpoint.tensor(EMBEDDINGS).float(), persistent=False)
        self.register_buffer("frequencies", frequencies(config), persistent=False)

    def initialise(self, fc: nn.Linear) -> None:
        """Begin as the target's own reading of its last hidden state: the last block of `fc` is the identity, the
        layer's output projections are near zero."""
        h = self.config.hidden_size
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
        for module in (self.o_proj, self.down_proj):
            nn.init.normal_(module.weight, std=0.002)
        with torch.no_grad():
            fc.weight[:, -h:] += torch.eye(h)

    def steps(self, progress: float) -> int:
        return STEPS if progress >= FIRST_STEP_SHARE else 1

    @abstractmethod
    def features(self, batch: TrainingBatch) -> Tensor:
        """What step 0 is fed, [B, T - 1, h]. The batch's last tap is what leaves the target's layers, un-normed."""

    @abstractmethod
    def enter(self, tokens: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """What the attention reads, and the residual stream.

        tokens [B, Q] · hidden [B, Q, h] -> [B, Q, width], [B, Q, h]
        """

    @abstractmethod
    def leave(self, x: Tensor) -> Tensor:
        """What `head` reads and the next step is fed, from the layer's output. [B, Q, h] -> [B, Q, h]"""

    def vocabulary(self, batch: TrainingBatch) -> Tensor:
        """The rows of the target's head that this batch is compared over; those of `head` come first."""
        return self.head

    def loss(self, token_loss: Tensor, hidden: Tensor, ahead: Tensor) -> Tensor:
        """Of a step. token_loss: scalar · hidden, ahead [N, h]: what it gave out, and what left the target's layers"""
        return token_loss

    def forward(self, batch: TrainingBatch, steps: int) -> list[StepResult]:
        """The results of `steps` draft steps."""
        chains, rows = Chains.of(batch), self.vocabulary(batch)
        fused = self.features(batch)
        positions = torch.arange(batch.tokens.shape[1] - 1, device=fused.device)
        keys, values = self._project(self.enter(batch.tokens[:, 1:], fused)[0], positions)
        hidden, mask = take(fused, chains.at), positions > chains.at[:, :, None]
        targets, ahead = self.targets(batch, chains, steps, rows), self.ahead(batch, chains, steps)
        own_keys, own_values, results = [], [], []
        followed = torch.ones_like(chains.at, dtype=torch.bool)
        for step in range(steps):
            tokens = batch.tokens.gather(1, (chains.at + 1 + step).clamp_max(batch.tokens.shape[1] - 1))
            at, valid = chains.at + step, chains.valid(step)
            read, residual = self.enter(tokens, hidden)
            if step:
                k, v = self._project(read, at)
                own_keys.append(k)
                own_values.append(v)
            queries = _rotate(self._heads(self.q_proj(read)), at, self.frequencies)
            hidden = self._layer(_attend(queries, keys, values, mask, own_keys, own_values), residual)
            wanted = batch.tokens.gather(1, (chains.at + 2 + step).clamp_max(batch.tokens.shape[1] - 1))
            result, hit = self.mark(hidden, wanted, valid, targets[:, step:], followed, rows)
            loss = self.loss(result.loss, hidden[valid], ahead[:, step : step + hidden.shape[1]][valid])
            results.append(replace(result, loss=loss))
            followed = followed & hit
        return results

    def _heads(self, x: Tensor) -> Tensor:
        # [B, Q, heads * head_dim] -> [B, heads, Q, head_dim]
        return x.view(*x.shape[:-1], -1, self.config.head_dim).transpose(1, 2)

    def _project(self, read: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        # read [B, Q, width] · positions [B, Q] or [Q] -> keys and values [B, heads, Q, head_dim], each group's repeated
        keys = _rotate(self._heads(self.k_proj(read)), positions, self.frequencies)
        group = self.config.group
        return keys.repeat_interleave(group, 1), self._heads(self.v_proj(read)).repeat_interleave(group, 1)

    def _layer(self, attended: Tensor, residual: Tensor) -> Tensor:
        # attended [B, heads, Q, head_dim] · residual [B, Q, h] -> [B, Q, h]
        x = residual + self.o_proj(attended.transpose(1, 2).flatten(2))
        h = self.post_attention_layernorm(x)
        return self.leave(x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h)))


def _rotate(heads: Tensor, positions: Tensor, frequencies: Tensor) -> Tensor:
    # heads [B, H, Q, D] in Hugging Face's order of channels · positions [B, Q] or [Q]
    angles = positions[..., None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    if positions.dim() == 2:
        cos, sin = cos[:, None], sin[:, None]
    a, b = heads.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, own_keys: list[Tensor], own_values: list[Tensor]
) -> Tensor:
    # queries and own ones [B, H, Q, D] · keys, values [B, H, T, D] · mask [B, Q, T], True = hidden
    scale: float = queries.shape[-1] ** -0.5
    scores = (queries @ keys.transpose(2, 3)).mul(scale).masked_fill(mask[:, None], float("-inf"))
    own = [(queries * k).sum(-1, keepdim=True) * scale for k in own_keys]
    weights = torch.cat([scores, *own], -1).softmax(-1)
    out = weights[..., : keys.shape[2]] @ values
    for index, v in enumerate(own_values):
        out = out + weights[..., keys.shape[2] + index, None] * v
    return out
