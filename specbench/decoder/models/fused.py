"""A head that fuses a token with what the target's own head reads, and speaks through that head: EAGLE-1 and MTP.

Position i pairs f_i, the target's last hidden state of token i after its final norm, with the embedding of token i+1:

    u = W [embedding ; f] · y = layer(u) · logits = the target's lm_head(y), which predicts token i+2

Where the target has not been yet, y of the step before stands in for f. EAGLE-1 (`eagle.py`) has no norms besides the
one before the MLP; MTP (`mtp.py`) normalises embedding, f, the layer's input and its output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from specbench.decoder.cache import CacheView
from specbench.decoder.checkpoint import Weights
from specbench.decoder.config import ModelConfig
from specbench.decoder.models.linear import linear
from specbench.decoder.models.llama import Llama, attend, load_layer, normalize
from specbench.decoder.models.rope import frequencies, rotations


@dataclass(frozen=True, slots=True)
class FusedConfig:
    """layer: the head's decoder layer, as wide as the target's · taps: what leaves the target's last layer"""

    layer: ModelConfig
    target_hidden_size: int
    taps: tuple[int, ...]

    @classmethod
    def of(cls, layer: ModelConfig, target: ModelConfig, directory: Path) -> FusedConfig:
        """Raises ValueError, in words, where head and target do not belong together."""
        for what, own, targets in (
            ("hidden size", layer.hidden_size, target.hidden_size),
            ("vocabulary", layer.vocab_size, target.vocab_size),
        ):
            if own != targets:
                raise ValueError(
                    f"the head in {directory} was made for a {what} of {own}, and this target's is {targets}. "
                    "Choose a head that was trained for this target."
                )
        return cls(layer, target.hidden_size, (target.num_layers,))


@dataclass(frozen=True, slots=True)
class FusedNames:
    """What a layout calls the head's tensors; None for those that the method has not.

    layer: prefix of the decoder layer's tensors, which are named as in every Hugging Face checkpoint
    """

    fuse: str
    layer: str
    embedding_norm: str | None = None
    hidden_norm: str | None = None
    norm: str | None = None
    input_norm: bool = False


class FusedHead:
    """The head's weights, laid out for decoding.

    weights_bytes: its own parameters; lm_head, and embeddings that it shares with the target, are not counted
    """

    token_ids: Tensor | None = None

    def __init__(self, config: FusedConfig, weights: Weights, names: FusedNames, target: Llama) -> None:
        self.config, self.dtype, self.device = config, target.dtype, target.device
        self.weights_bytes = 0
        self._target = target

        def weight(name: str) -> Tensor:
            tensor = weights.tensor(name).to(target.device, target.dtype)
            self.weights_bytes += tensor.nbytes
            return tensor

        def of_layer(name: str) -> Tensor:
            has_none = name == f"{names.layer}input_layernorm.weight" and not names.input_norm
            return torch.empty(0) if has_none else weight(name)

        _check_width(weights, names, config.target_hidden_size)
        own_embeddings = "embed_tokens.weight" in weights
        self.embeddings = weight("embed_tokens.weight") if own_embeddings else target.embeddings
        self.embedding_norm = _optional(names.embedding_norm, weight)
        self.hidden_norm = _optional(names.hidden_norm, weight)
        bias = f"{names.fuse}.bias"
        self.fc = linear(weight(f"{names.fuse}.weight"), weight(bias) if bias in weights else None)
        self.layer = load_layer(config.layer, of_layer, names.layer)
        self.input_norm = self.layer.attention_norm if names.input_norm else None
        self.norm = _optional(names.norm, weight)
        self.frequencies = frequencies(config.layer).to(target.device)

    def fuse(self, features: Tensor) -> Tensor:
        """f from what left the target's last layer. features [..., 1, h] -> [..., h]"""
        return normalize(self._target.config, features[..., 0, :], self._target.norm)

    def forward(self, tokens: Tensor, hidden: Tensor, view: CacheView, last: int = 1) -> tuple[Tensor, Tensor]:
        """The logits of the last pairs, and what takes the place of f in the next draft step.

        tokens [B, w] int64, each one place after the position of its pair · hidden [B, w, h], f or own output · view:
        at the pairs' positions · last: of how many pairs -> logits [B, last, V], own output [B, last, h]
        """
        config, layer = self.config.layer, self.layer
        batch = tokens.shape[0]
        embedded = self._normed(F.embedding(tokens.flatten(), self.embeddings), self.embedding_norm)
        u = self.fc(torch.cat([embedded, self._normed(hidden.flatten(0, 1), self.hidden_norm)], -1))
        rotation = rotations(self.frequencies, view.positions.flatten())
        attended = attend(config, layer, 0, self._normed(u, self.input_norm), rotation, view)
        # From here on only the last pairs matter: the others were there for their keys and values.
        attended, u = (t.view(batch, -1, t.shape[-1])[:, -last:].flatten(0, 1) for t in (attended, u))
        x = layer.output.plus(attended, u)
        h = normalize(config, x, layer.mlp_norm)
        x = layer.down.plus(layer.up.times(h, layer.gate.silu(h)), x)
        y = self._normed(x, self.norm)
        return self._target.head(y).view(batch, last, -1), y.view(batch, last, -1)

    def _normed(self, x: Tensor, weight: Tensor | None) -> Tensor:
        return x if weight is None else normalize(self.config.layer, x, weight)


def _optional(name: str | None, weight: Callable[[str], Tensor]) -> Tensor | None:
    return None if name is None else weight(name)


def _check_width(weights: Weights, names: FusedNames, hidden_size: int) -> None:
    shape = tuple(weights.tensor(f"{names.fuse}.weight").shape)
    if shape != (hidden_size, 2 * hidden_size):
        raise ValueError(
            f"{names.fuse}.weight is {list(shape)}, and a head that fuses one hidden state with one embedding has "
            f"[{hidden_size}, {2 * hidden_size}]. With three hidden states it is an EAGLE-3 head: --method eagle3."
        )
