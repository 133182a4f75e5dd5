"""Medusa heads (Cai et al., 2024): each predicts the token at one distance, all of them from the same hidden state.

    h_k = h + SiLU(A_k h + b_k) · logits_k = W_k h_k        h: the target's last hidden state, after its final norm

The target's own head says from h what comes next; head k = 0, 1, … says what comes k + 2 places after h's token.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specbench.decoder.checkpoint import Weights, head_weights
from specbench.decoder.models.linear import Linear, linear
from specbench.decoder.models.llama import Llama, normalize


@dataclass(frozen=True, slots=True)
class MedusaLayout:
    """Names of head k's tensors. `block`: of its residual block l · `speaks`: of W_k, where the head has l blocks"""

    block: str
    speaks: str


LAYOUTS = (
    MedusaLayout(block="{k}.{l}.linear", speaks="{k}.{l}"),
    MedusaLayout(block="blocks.{k}.layers.{l}", speaks="lm_heads.{k}"),
)
"""FasterDecoding's (medusa_lm_head.pt, or the same as safetensors), and vLLM's."""

TOKEN_MAP = "token_map"
"""[V_d] int64: the token that each logit stands for, where the heads speak a part of the vocabulary (vLLM's)."""


class MedusaHeads:
    """The heads' weights, laid out for decoding.

    How many heads there are is what the tensors say: published config.json files name fewer (vicuna-7b-v1.3: 2 of 5).

    token_ids:     [V_d] int64 of `token_map`; None for the target's whole vocabulary
    weights_bytes: their own parameters; a W that heads share is counted once, the target's not at all
    """

    def __init__(self, weights: Weights, target: Llama, directory: Path) -> None:
        self.dtype, self.device = target.dtype, target.device
        self.target_config, self._target = target.config, target
        self.weights_bytes = 0
        layout = next((each for each in LAYOUTS if _name(each.block, 0, 0) in weights), None)
        if layout is None:
            raise ValueError(
                f"{directory} has no Medusa heads (neither {_name(LAYOUTS[0].block, 0, 0)} nor "
                f"{_name(LAYOUTS[1].block, 0, 0)} among its tensors). Give the directory of heads for this target."
            )
        self.token_ids = weights.tensor(TOKEN_MAP).to(target.device, torch.int64) if TOKEN_MAP in weights else None
        shared = bool(_fields(directory).get("original_lm_head", False))
        self.blocks: list[list[Linear]] = []
        self.speaks: list[Linear] = []
        while _name(layout.block, len(self.blocks), 0) in weights:
            k = len(self.blocks)
            self.blocks.append(self._blocks(weights, layout, k))
            if shared and k:
                self.speaks.append(self.speaks[0])
            else:
                self.speaks.append(self._speaks(weights, _name(layout.speaks, k, len(self.blocks[k])), shared))

    @classmethod
    def from_directory(cls, directory: Path, target: Llama) -> MedusaHeads:
        """Raises ValueError for heads that can't be read, or that were made for another target."""
        return cls(head_weights(directory, "medusa_lm_head.pt"), target, directory)

    def fuse(self, features: Tensor) -> Tensor:
        """h from what left the target's last layer. features [..., 1, h] -> [..., h]"""
        return normalize(self.target_config, features[..., 0, :], self._target.norm)

    def logits(self, hidden: Tensor, count: int) -> Tensor:
        """Of the first `count` heads. hidden [B, h] -> [B, count, V_d]"""
        each = []
        for blocks, speak in zip(self.blocks[:count], self.speaks, strict=False):
            x = hidden
            for block in blocks:
                x = x + block.silu(x)
            each.append(speak(x))
        return torch.stack(each, 1)

    def _blocks(self, weights: Weights, layout: MedusaLayout, k: int) -> list[Linear]:
        blocks: list[Linear] = []
        while (name := _name(layout.block, k, len(blocks))) in weights:
            weight, bias = weights.tensor(name), name.removesuffix(".weight") + ".bias"
            if tuple(weight.shape) != (self.target_config.hidden_size,) * 2:
                raise ValueError(
                    f"the Medusa heads were made for a target of hidden size {weight.shape[0]}, and this target's is "
                    f"{self.target_config.hidden_size}. Choose heads that were trained for this target."
                )
            blocks.append(linear(self._own(weight), self._own(weights.tensor(bias)) if bias in weights else None))
        return blocks

    def _speaks(self, weights: Weights, name: str, shared: bool) -> Linear:
        if shared and name not in weights and self.token_ids is None:
            return self._target.head
        rows, vocabulary = weights.tensor(name), self.target_config.vocab_size
        if self.token_ids is not None and len(rows) > len(self.token_ids):
            rows = rows[self.token_ids.to(rows.device)]
        said = vocabulary if self.token_ids is None else len(self.token_ids)
        if len(rows) != said:
            raise ValueError(
                f"the Medusa heads speak {len(rows)} tokens, and should speak {said}: the target's vocabulary, or as "
                "many as their token_map names. Choose heads that were trained for this target."
            )
        return linear(self._own(rows))

    def _own(self, tensor: Tensor) -> Tensor:
        tensor = tensor.to(self.device, self.dtype)
        self.weights_bytes += tensor.nbytes
        return tensor


def _name(pattern: str, head: int, block: int) -> str:
    return pattern.format(k=head, l=block) + ".weight"


def _fields(directory: Path) -> dict[str, Any]:
    """config.json, which says nothing that the tensors do not, but whether one W is for all heads."""
    try:
        fields = json.loads((directory / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}
