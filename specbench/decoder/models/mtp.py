"""A multi-token-prediction head (DeepSeek-V3, 2024, section 2.2): one more decoder layer after the target's last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.config import ModelConfig
from specbench.decoder.models.fused import FusedConfig, FusedHead, FusedNames
from specbench.decoder.models.llama import Llama

LAYOUTS = {
    "qwen": FusedNames(
        fuse="mtp.fc",
        layer="mtp.layers.0.",
        embedding_norm="mtp.pre_fc_norm_embedding.weight",
        hidden_norm="mtp.pre_fc_norm_hidden.weight",
        norm="mtp.norm.weight",
        input_norm=True,
    ),
    "speculators": FusedNames(
        fuse="mtp_layers.0.input_proj",
        layer="mtp_layers.0.",
        embedding_norm="mtp_layers.0.token_layernorm.weight",
        hidden_norm="mtp_layers.0.hidden_layernorm.weight",
        norm="mtp_layers.0.final_layernorm.weight",
        input_norm=True,
    ),
}
"""`qwen`: among the target's own tensors, as Qwen ships it. `speculators`: a directory of its own, of vLLM's trainer.

In both the embedding comes first in the product. MiMo's `model.mtp_layers.0.*` has the names of the second layout and
the hidden state first; it is not read.
"""


def load_mtp(directory: Path, target: Llama) -> FusedHead:
    """The head in `directory`, the target's own or another. Heads of several layers are used as one, by its first.

    Raises ValueError where there is none, where it can't be read, or where it was made for another target.
    """
    weights = Checkpoint(directory)
    names = next((names for names in LAYOUTS.values() if f"{names.fuse}.weight" in weights), None)
    if names is None:
        raise ValueError(
            f"{directory} has no MTP head (neither mtp.* nor mtp_layers.0.* among its tensors). Give the directory of "
            "one that was trained for this target (specbench train mtp): --drafter mtp=DIRECTORY."
        )
    config = FusedConfig.of(_layer_config(directory), target.config, directory)
    return FusedHead(config, weights, names, target)


def _layer_config(directory: Path) -> ModelConfig:
    """The shape of the head's layer: of a speculators' config its own field, else that of the model in `directory`."""
    path = directory / "config.json"
    try:
        raw: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        raw = None
    if not isinstance(raw, dict) or "speculators_model_type" not in raw:
        return ModelConfig.from_directory(directory)  # which names what is wrong with it
    try:
        if raw["speculators_model_type"] != "mtp":
            raise ValueError(f"speculators_model_type {raw['speculators_model_type']!r} is not mtp.")
        return ModelConfig.from_fields(raw["transformer_layer_config"])
    except KeyError as missing:
        raise ValueError(f"{path} lacks the field {missing}.") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
