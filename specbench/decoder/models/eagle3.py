"""An EAGLE-3 head (Li et al., 2025): one decoder layer that goes on from the target's features and its own.

Position i pairs the target's features g_i of token i with the embedding of token i+1, and predicts token i+2. Where the
target has not been yet, the layer's own output of the step before stands in for g_i.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from specbench.decoder.cache import CacheView
from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.models.eagle3_config import Eagle3Config
from specbench.decoder.models.linear import linear
from specbench.decoder.models.llama import Llama, attend, load_layer, normalize
from specbench.decoder.models.rope import frequencies, rotations


class Eagle3Head:
    """The head's weights, laid out for decoding.

    token_ids:     [V_d] int64, ascending: the target's token that each of its logits stands for
    weights_bytes: its own parameters; embeddings that it shares with the target are not counted
    """

    def __init__(self, config: Eagle3Config, checkpoint: Checkpoint, target: Llama) -> None:
        self.config, self.dtype, self.device = config, target.dtype, target.device
        self.weights_bytes = 0

        def weight(name: str) -> Tensor:
            tensor = checkpoint.tensor(name).to(target.device, target.dtype)
            self.weights_bytes += tensor.nbytes
            return tensor

        prefix = "midlayer." if "midlayer.hidden_norm.weight" in checkpoint else "layers.0."
        self.embeddings = weight("embed_tokens.weight") if "embed_tokens.weight" in checkpoint else target.embeddings
        self.input_norm = weight("input_norm.weight") if config.norm_before_fc else None
        self.tap_norms = [weight(f"fc_norm.{i}.weight") for i in range(len(config.taps))] if config.fc_norm else None
        self.fc = linear(weight("fc.weight"))
        self.hidden_norm = weight(f"{prefix}hidden_norm.weight")
        self.layer = load_layer(config.layer, weight, prefix)
        self.norm = weight("norm.weight")
        self.head = linear(weight("lm_head.weight"))
        self.token_ids = torch.arange(config.draft_vocab_size, device=target.device)
        if "d2t" in checkpoint:
            self.token_ids += checkpoint.tensor("d2t").to(target.device)
        self.frequencies = frequencies(config.layer).to(target.device)

    @classmethod
    def from_directory(cls, directory: str | Path, target: Llama) -> Eagle3Head:
        """Raises ValueError for a head that can't be read, or whose shape is not that of the target."""
        config = Eagle3Config.from_directory(directory, target.config)
        checkpoint = Checkpoint(directory)
        _compare(config, checkpoint, target, Path(directory))
        return cls(config, checkpoint, target)

    def fuse(self, features: Tensor) -> Tensor:
        """What enters the layer from the target's features. features [..., taps, target_hidden_size] -> [..., h]"""
        if self.input_norm is not None:
            features = normalize(self.config.layer, features.flatten(-2), self.input_norm).view(features.shape)
        if self.tap_norms is not None:
            taps = [normalize(self.config.layer, features[..., i, :], w) for i, w in enumerate(self.tap_norms)]
            features = torch.stack(taps, -2)
        flat = features.flatten(-2)
        return self.fc(flat.flatten(0, -2)).view(*flat.shape[:-1], -1)

    def forward(self, tokens: Tensor, hidden: Tensor, view: CacheView, last: int = 1) -> tuple[Tensor, Tensor]:
        """The logits of the last pairs, and what takes the place of features in the next draft step.

        tokens [B, w] int64, each one place after the position of its pair · hidden [B, w, h], fused features or own
        output · view: at the pairs' positions · last: of how many pairs ->
        logits [B, last, V_d], own output [B, last, h]
        """
        config, layer = self.config, self.layer
        batch = tokens.shape[0]
        embedded = normalize(config.layer, F.embedding(tokens.flatten(), self.embeddings), layer.attention_norm)
        own = hidden.flatten(0, 1)
        normed = normalize(config.layer, own, self.hidden_norm)
        attended = attend(
            config.layer, layer, 0, torch.cat([embedded, normed], -1),
            rotations(self.frequencies, view.positions.flatten()), view,
        )  # fmt: skip
        # From here on only the last pairs matter: the others were there for their keys and values.
        residual = normed if config.norm_before_residual else own
        attended, residual = (t.view(batch, -1, t.shape[-1])[:, -last:].flatten(0, 1) for t in (attended, residual))
        x = layer.output.plus(attended, residual)
        h = normalize(config.layer, x, layer.mlp_norm)
        x = layer.down.plus(layer.up.times(h, layer.gate.silu(h)), x)
        normed_out = normalize(config.layer, x, self.norm)
        out = normed_out if config.norm_output else x
        return self.head(normed_out).view(batch, last, -1), out.view(batch, last, -1)


def _compare(config: Eagle3Config, checkpoint: Checkpoint, target: Llama, directory: Path) -> None:
    """Raises ValueError, in words, where head and target do not belong together."""
    if config.target_hidden_size != target.config.hidden_size:
        raise ValueError(
            f"the EAGLE-3 head in {directory} was made for a target of hidden size {config.target_hidden_size}, and "
            f"this target's is {target.config.hidden_size}. Choose a head that was trained for this target."
        )
    if config.layer.vocab_size != target.config.vocab_size:
        raise ValueError(
            f"the EAGLE-3 head in {directory} was made for a vocabulary of {config.layer.vocab_size} tokens, and this "
            f"target's has {target.config.vocab_size}. Choose a head that was trained for this target."
        )
    if "embed_tokens.weight" not in checkpoint and config.layer.hidden_size != target.config.hidden_size:
        raise ValueError(f"the EAGLE-3 head in {directory} has no embed_tokens, and the target's are of another size.")
    tokens = len(checkpoint.tensor("d2t")) if "d2t" in checkpoint else target.config.vocab_size
    if tokens != config.draft_vocab_size:
        raise ValueError(
            f"{directory} says in d2t what {tokens} tokens mean, and in its config.json that its draft vocabulary has "
            f"{config.draft_vocab_size}. Is it whole?"
        )
