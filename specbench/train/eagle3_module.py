"""An EAGLE-3 head that learns: its layer, and the training-time test (Li et al., 2025, section 3.2).

The head is trained as it will be used. Step 0 reads the target's features; each later step reads its own output of the
step before, one token further on. A chain i is the pair of positions from which the drafts for token i+2, i+3, … are
made; its step j sees the keys of step 0 up to position i, and its own keys of steps 1 to j.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specbench.decoder.config import ModelConfig
from specbench.decoder.models.rope import frequencies
from specbench.train.batches import TrainingBatch

STEP_WEIGHT = 0.8
"""What each step's loss weighs, of the step before: a draft is only of use where all before it were accepted."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step of the training-time test.

    loss: scalar · hits, followed: [N] bool, of each chain that has a token to predict here: the head's choice is the
    recorded token; and so were all its choices before
    """

    loss: Tensor
    hits: Tensor
    followed: Tensor


class Eagle3Module(nn.Module):
    """Layer, fusion and norms are trained; embeddings [V, h] and head [V_d, h] are the target's and are not.

    token_ids: [V_d] int64, ascending: the target's tokens that the head can propose

    It begins as the target's own reading of its last tap: the last block of `fc` is the identity, the layer's output
    projections are near zero. Both `fc_norm` and `norm_output` are on, so what a step hands to the next is as large as
    what the target's features were.
    """

    def __init__(self, config: ModelConfig, taps: int, embeddings: Tensor, head: Tensor, token_ids: Tensor) -> None:
        super().__init__()
        self.config = config
        h, heads, kv_heads, d = config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim
        self.fc_norm = nn.ModuleList(nn.RMSNorm(h, config.rms_norm_eps) for _ in range(taps))
        self.fc = nn.Linear(taps * h, h, bias=False)
        self.input_layernorm, self.hidden_norm, self.post_attention_layernorm, self.norm = (
            nn.RMSNorm(h, config.rms_norm_eps) for _ in range(4)
        )
        self.q_proj = nn.Linear(2 * h, heads * d, bias=False)
        self.k_proj = nn.Linear(2 * h, kv_heads * d, bias=False)
        self.v_proj = nn.Linear(2 * h, kv_heads * d, bias=False)
        self.o_proj = nn.Linear(heads * d, h, bias=False)
        self.gate_proj = nn.Linear(h, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(h, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, h, bias=False)
        self._initialise()
        self.embeddings: Tensor
        self.head: Tensor
        self.draft_ids: Tensor
        self.frequencies: Tensor
        self.register_buffer("embeddings", embeddings, persistent=False)
        self.register_buffer("head", head, persistent=False)
        self.register_buffer("frequencies", frequencies(config), persistent=False)
        # [V]: the place of a target's token among the draft's, -1 for those that it has not
        draft_ids = torch.full((embeddings.shape[0],), -1, dtype=torch.int64)
        draft_ids[token_ids] = torch.arange(len(token_ids))
        self.register_buffer("draft_ids", draft_ids, persistent=False)

    def _initialise(self) -> None:
        h = self.config.hidden_size
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
        for module in (self.o_proj, self.down_proj):
            nn.init.normal_(module.weight, std=0.002)
        with torch.no_grad():
            self.fc.weight[:, -h:] += torch.eye(h)

    def forward(self, batch: TrainingBatch, steps: int) -> list[StepResult]:
        """The losses of `steps` draft steps. The batch's last tap is what leaves the target's layers, un-normed."""
        chains = _Chains.of(batch)
        features = batch.hidden[:, :-1, :-1]
        fused = self.fc(torch.cat([norm(features[..., i, :]) for i, norm in enumerate(self.fc_norm)], -1))
        positions = torch.arange(batch.tokens.shape[1] - 1, device=fused.device)
        keys, values = self._keys_values(batch.tokens[:, 1:], fused, positions)
        hidden, mask = _take(fused, chains.at), positions > chains.at[:, :, None]
        targets = self._targets(batch, chains, steps)
        own_keys, own_values, results = [], [], []
        followed = torch.ones_like(chains.at, dtype=torch.bool)
        for step in range(steps):
            tokens = batch.tokens.gather(1, (chains.at + 1 + step).clamp_max(batch.tokens.shape[1] - 1))
            at = chains.at + step
            joined = self._joined(tokens, hidden)
            if step:
                k, v = self._project(joined, at)
                own_keys.append(k)
                own_values.append(v)
            queries = _rotate(self._heads(self.q_proj(joined)), at, self.frequencies)
            hidden = self._layer(_attend(queries, keys, values, mask, own_keys, own_values), hidden)
            wanted = batch.tokens.gather(1, (chains.at + 2 + step).clamp_max(batch.tokens.shape[1] - 1))
            result, hit = self._score(hidden, wanted, chains.valid(step), targets[:, step:], followed)
            followed = followed & hit
            results.append(result)
        return results

    def _joined(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        # [B, Q] and [B, Q, h] -> [B, Q, 2h]
        return torch.cat([self.input_layernorm(F.embedding(tokens, self.embeddings)), self.hidden_norm(hidden)], -1)

    def _heads(self, x: Tensor) -> Tensor:
        # [B, Q, heads * head_dim] -> [B, heads, Q, head_dim]
        return x.view(*x.shape[:-1], -1, self.config.head_dim).transpose(1, 2)

    def _project(self, joined: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        # joined [B, Q, 2h] · positions [B, Q] or [Q] -> keys and values [B, heads, Q, head_dim], each group's repeated
        keys = _rotate(self._heads(self.k_proj(joined)), positions, self.frequencies)
        group = self.config.group
        return keys.repeat_interleave(group, 1), self._heads(self.v_proj(joined)).repeat_interleave(group, 1)

    def _keys_values(self, tokens: Tensor, hidden: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        return self._project(self._joined(tokens, hidden), positions)

    def _layer(self, attended: Tensor, residual: Tensor) -> Tensor:
        # attended [B, heads, Q, head_dim] · residual [B, Q, h] -> [B, Q, h], normed
        x = residual + self.o_proj(attended.transpose(1, 2).flatten(2))
        h = self.post_attention_layernorm(x)
        x = x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))
        normed: Tensor = self.norm(x)
        return normed

    @torch.no_grad()
    def _targets(self, batch: TrainingBatch, chains: _Chains, steps: int) -> Tensor:
        """[B, Q + steps - 1, V_d]: the target's probabilities for the token two after each chain, among the draft's."""
        at = torch.cat([chains.at, chains.at[:, -1:] + torch.arange(1, steps, device=chains.at.device)], 1) + 1
        read = _take(batch.hidden[:, :, -1], at.clamp_max(batch.tokens.shape[1] - 1))
        # The gain of the target's final norm is folded into `head`.
        return F.linear(F.rms_norm(read, read.shape[-1:], None, self.config.rms_norm_eps), self.head).softmax(-1)

    def _score(
        self, hidden: Tensor, wanted: Tensor, valid: Tensor, targets: Tensor, followed: Tensor
    ) -> tuple[StepResult, Tensor]:
        # hidden [B, Q, h] · wanted, valid, followed [B, Q] · targets [B, >= Q, V_d]
        places = self.draft_ids[wanted]
        logits = F.linear(hidden[valid], self.head)
        hits = logits.argmax(-1) == places[valid]
        # Where the target said what the draft cannot say, there is no lesson in what it should have said.
        lesson = (places[valid] >= 0).to(logits.dtype)
        losses = F.cross_entropy(logits, targets[:, : hidden.shape[1]][valid], reduction="none")
        loss = (losses * lesson).sum() / lesson.sum().clamp_min(1)
        hit = torch.zeros_like(valid)
        hit[valid] = hits
        return StepResult(loss, hits, followed[valid]), hit


@dataclass(frozen=True, slots=True)
class _Chains:
    """at: [B, Q] int64, the position of each chain; beyond a row's last it runs on · last: [B, 1], of step 0"""

    at: Tensor
    last: Tensor

    @classmethod
    def of(cls, batch: TrainingBatch) -> _Chains:
        # The first answer token comes out of the prefill: the first draft is for the one after it.
        first, last = batch.first - 1, batch.lengths - 3
        width = int((last - first).max()) + 1
        at = first[:, None] + torch.arange(width, device=first.device)
        return cls(at.clamp_max(batch.tokens.shape[1] - 2), last[:, None])

    def valid(self, step: int) -> Tensor:
        """[B, Q] bool: whether a recorded answer token stands where this step drafts."""
        fresh = torch.ones_like(self.at, dtype=torch.bool)
        # Where `at` was clamped, neighbours are equal; only the first counts.
        fresh[:, 1:] = self.at[:, 1:] > self.at[:, :-1]
        return fresh & (self.at + step <= self.last)


def _take(x: Tensor, at: Tensor) -> Tensor:
    # x [B, T, h] · at [B, Q] -> [B, Q, h]
    return x.gather(1, at[:, :, None].expand(-1, -1, x.shape[-1]))


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
