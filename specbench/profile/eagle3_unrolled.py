"""An EAGLE-3 head's drafts from every position of a text at once, each fed on its own output as in decoding.

A chain i is the draft that begins with the pair (features of token i, token i+1). Its step 0 sees the pairs up to i,
made of the target's features; its later steps see these and the chain's own steps, and nothing of other chains: the
mask of the training-time test (Li et al., 2025, section 3.2), with the head as it decodes (`decoder.models.eagle3`).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from specbench.decoder.models.eagle3 import Eagle3Head
from specbench.decoder.models.llama import normalize
from specbench.decoder.models.rope import rotate, rotations

CHAINS = 256
"""Chains that attend together: bounds the memory of their scores."""


def unrolled(head: Eagle3Head, features: Tensor, text: Tensor, first: int, steps: int) -> Tensor:
    """The token that each step of each chain drafts, given that those before it were right.

    features [T, taps, target_hidden_size], of the text's first T tokens · text [> T] int64 · first: the first chain;
    the last is T-1 -> [steps, T - first] int64. Where a step's own input lies beyond the text its choice means nothing.
    """
    length = len(features)
    at = torch.arange(length, device=head.device)
    hidden = head.fuse(features)
    queries, keys, values, residual = _project(head, text[1 : length + 1], hidden, at)
    queries, residual, chains = queries[first:], residual[first:], at[first:]
    own_keys: list[Tensor] = []
    own_values: list[Tensor] = []
    chosen = []
    for step in range(steps):
        if step:
            tokens = text[(chains + 1 + step).clamp_max(len(text) - 1)]
            queries, own_key, own_value, residual = _project(head, tokens, hidden, chains + step)
            own_keys.append(own_key)
            own_values.append(own_value)
        parts = [slice(start, start + CHAINS) for start in range(0, len(chains), CHAINS)]
        attended = torch.cat([_attend(queries, keys, values, chains, own_keys, own_values, part) for part in parts])
        read, hidden = _rest(head, attended, residual)
        chosen.append(head.token_ids[head.head(read).argmax(-1)])
    return torch.stack(chosen)


def _project(head: Eagle3Head, tokens: Tensor, hidden: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
    """tokens, positions [Q] · hidden [Q, h] -> queries [Q, kv_heads, group, D], keys, values [Q, kv_heads, D], and the
    residual stream [Q, h]"""
    config, layer = head.config.layer, head.layer
    embedded = normalize(config, F.embedding(tokens, head.embeddings), layer.attention_norm)
    normed = normalize(config, hidden, head.hidden_norm)
    heads = layer.qkv(torch.cat([embedded, normed], -1)).view(len(tokens), -1, config.head_dim)
    rotate(heads[:, : config.num_heads + config.num_kv_heads], rotations(head.frequencies, positions))
    shape = (len(tokens), config.num_kv_heads, config.group, config.head_dim)
    queries = heads[:, : config.num_heads].reshape(shape)
    keys, values = heads[:, config.num_heads :].chunk(2, 1)
    return queries, keys, values, normed if head.config.norm_before_residual else hidden


def _attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    chains: Tensor,
    own_keys: list[Tensor],
    own_values: list[Tensor],
    part: slice,
) -> Tensor:
    # queries [Q, KV, G, D] · keys, values [T, KV, D] · chains [Q] · own ones [Q, KV, D] each · part: of Q
    # -> [part, heads * D]
    queries, chains = queries[part], chains[part]
    scale = queries.shape[-1] ** -0.5
    scores = torch.einsum("qkgd,tkd->qkgt", queries, keys) * scale
    later = torch.arange(len(keys), device=chains.device) > chains[:, None]
    scores = scores.masked_fill(later[:, None, None], -math.inf)
    own = [torch.einsum("qkgd,qkd->qkg", queries, k[part])[..., None] * scale for k in own_keys]
    weights = torch.cat([scores, *own], -1).softmax(-1)
    out = torch.einsum("qkgt,tkd->qkgd", weights[..., : len(keys)], values)
    for place, v in enumerate(own_values, start=len(keys)):
        out = out + weights[..., place, None] * v[part, :, None]
    return out.flatten(1)


def _rest(head: Eagle3Head, attended: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    """What the head reads, and what the next step is fed: both [Q, h]."""
    config, layer = head.config.layer, head.layer
    x = layer.output.plus(attended, residual.contiguous())
    h = normalize(config, x, layer.mlp_norm)
    x = layer.down.plus(layer.up.times(h, layer.gate.silu(h)), x)
    read = normalize(config, x, head.norm)
    return read, read if head.config.norm_output else x
