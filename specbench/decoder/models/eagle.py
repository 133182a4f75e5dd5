"""An EAGLE-1 head (Li et al., 2024): it goes on from the target's features and regresses the next one."""

from __future__ import annotations

from pathlib import Path

from specbench.decoder.checkpoint import head_weights
from specbench.decoder.config import ModelConfig
from specbench.decoder.models.fused import FusedConfig, FusedHead, FusedNames
from specbench.decoder.models.llama import Llama

NAMES = FusedNames(fuse="fc", layer="layers.0.")
"""SafeAILab's, which vLLM and SGLang read too. Its only layer has no norm before the attention."""


def load_eagle(directory: Path, target: Llama) -> FusedHead:
    """A head in SafeAILab's layout: config.json of one Llama layer, its tensors in safetensors or pytorch_model.bin.

    Raises ValueError for a head that can't be read, or that was made for another target.
    """
    layer = ModelConfig.from_directory(directory)
    if layer.num_layers != 1:
        raise ValueError(f"an EAGLE head of {layer.num_layers} layers ({directory}) can't be run, only of one.")
    config = FusedConfig.of(layer, target.config, directory)
    return FusedHead(config, head_weights(directory, "pytorch_model.bin"), NAMES, target)
