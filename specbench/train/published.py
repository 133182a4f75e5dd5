"""Trained EAGLE-1, Medusa and MTP heads as files, each in a layout that engines load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.config import ModelConfig
from specbench.decoder.models import eagle, medusa, mtp
from specbench.decoder.models.fused import FusedNames
from specbench.train.head_files import DTYPE, LAYER_MODULES, layer_config, speculators_fields
from specbench.train.lessons import target_rows

_BLOCKS = medusa.LAYOUTS[1]


def published(method: str, state: Mapping[str, Tensor], token_ids: Tensor) -> dict[str, Tensor]:
    """The trained tensors under the layout's names, in half precision on the CPU: what is not the target's anyway.

    state: of the method's module · token_ids: [V_d], which Medusa heads speak alone, and carry as `token_map`
    """
    tensors = {_name(method, key): tensor.detach().to("cpu", DTYPE).contiguous() for key, tensor in state.items()}
    return {**tensors, medusa.TOKEN_MAP: token_ids.to(torch.int32)} if method == "medusa" else tensors


def write_published(method: str, directory: Path, tensors: Mapping[str, Tensor], target: Path, name: str) -> None:
    """Write config.json and model.safetensors into the existing `directory`.

    tensors: as `published` gives them · name: the target's, for the reader. Embeddings and lm_head of EAGLE-1 and MTP
    are the target's, and engines take them from there; of Medusa heads vLLM wants the rows that they speak through.
    """
    raw = json.loads((target / "config.json").read_text("utf-8"))
    whole = dict(tensors)
    if method == "medusa":
        rows = target_rows(ModelConfig.from_directory(target), Checkpoint(target))
        token_ids = tensors[medusa.TOKEN_MAP].long()
        whole |= {medusa.TOKEN_MAP: token_ids, f"{_BLOCKS.speaks.format(k=0)}.weight": rows[token_ids].to(DTYPE)}
        fields = _medusa_config(raw, tensors)
    elif method == "eagle":
        fields = {"architectures": ["LlamaForCausalLM"], **layer_config(raw), "torch_dtype": "float16", "bias": False}
    else:
        fields = {
            "architectures": ["MTPDraftModel"], **speculators_fields("mtp", raw, name), "num_nextn_predict_layers": 1,
        }  # fmt: skip
    save_file(whole, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(fields, indent=2) + "\n", "utf-8")


def _name(method: str, key: str) -> str:
    """`q_proj.weight` -> `layers.0.self_attn.q_proj.weight`, and its like."""
    module, _, rest = key.partition(".")
    if method == "medusa":
        number, _, kind = rest.partition(".")
        return f"{_BLOCKS.block.format(k=number, l=0)}.{kind}"
    names = eagle.NAMES if method == "eagle" else mtp.LAYOUTS["speculators"]
    return _of_fused(names).get(key) or f"{names.layer}{LAYER_MODULES[module]}.{rest}"


def _of_fused(names: FusedNames) -> dict[str, str | None]:
    """Tensors of a `FusedModule` outside its layer -> their published names."""
    return {
        "fc.weight": f"{names.fuse}.weight",
        "embedding_norm.weight": names.embedding_norm,
        "hidden_norm.weight": names.hidden_norm,
        "norm.weight": names.norm,
    }


def _medusa_config(target: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """vLLM's. `original_lm_head`: one W for all heads"""
    return {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": target["hidden_size"],
        "vocab_size": target["vocab_size"],
        "truncated_vocab_size": len(tensors[medusa.TOKEN_MAP]),
        "num_heads": sum(name.endswith(".weight") for name in tensors),
        "num_hidden_layers": 1,
        "medusa_fc_bias": True,
        "original_lm_head": True,
        "torch_dtype": "float16",
    }
