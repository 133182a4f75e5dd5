"""A trained EAGLE-3 head as files: the two layouts that engines load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor

from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.config import ModelConfig
from specbench.decoder.models.eagle3_config import Eagle3Config, tap_layers
from specbench.errors import SpecbenchError
from specbench.train.lessons import GAIN, target_rows

Layout = Literal["safeailab", "speculators"]
"""`safeailab` is EAGLE's own, which SGLang, SpecForge and vLLM read; `speculators` is the one of vLLM's trainer."""

LAYER_PREFIXES: dict[Layout, str] = {"safeailab": "midlayer.", "speculators": "layers.0."}

LAYER_MODULES = {
    **{f"{name}_proj": f"self_attn.{name}_proj" for name in "qkvo"},
    **{f"{name}_proj": f"mlp.{name}_proj" for name in ("gate", "up", "down")},
    **{name: name for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm")},
}
"""Module of a `ChainModule` -> its name within the layer of a published head."""

DTYPE = torch.float16


def target_head(config: ModelConfig, checkpoint: Checkpoint, token_ids: Tensor) -> Tensor:
    """[V_d, h] float32: the target's rows for these tokens, times the gain of its final norm.

    With the gain folded in, a head whose own norm starts at 1 reads its last tap as the target would, and what its norm
    gives out is of the size of what came in.
    """
    return target_rows(config, checkpoint)[token_ids].float() * checkpoint.tensor(GAIN).float()


def head_tensors(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The trained tensors under EAGLE's own names. state: of an `Eagle3Module`"""
    return {_published(key): tensor.detach().to("cpu", DTYPE).contiguous() for key, tensor in state.items()}


def trained_state(directory: Path, target: ModelConfig) -> dict[str, Tensor]:
    """The state of an `Eagle3Module`, float32, from a head of either layout: `head_tensors` backwards.

    Raises SpecbenchError for a head that is built otherwise, or for another target.
    """
    try:
        config, checkpoint = Eagle3Config.from_directory(directory, target), Checkpoint(directory)
        options = {name: getattr(config, name) for name in OPTIONS}
        if options != OPTIONS:
            raise ValueError(f"the head in {directory} has {options}, and only heads with {OPTIONS} can be trained on.")
        prefix = next(p for p in LAYER_PREFIXES.values() if f"{p}hidden_norm.weight" in checkpoint)
        names = [f"{module}.weight" for module in (*LAYER_MODULES, "fc", "norm")]
        names += [f"fc_norm.{i}.weight" for i in range(len(config.taps))]
        return {name: checkpoint.tensor(_published(name, prefix)).float() for name in names}
    except ValueError as error:
        raise SpecbenchError(str(error)) from None


def write_head(
    directory: Path, tensors: Mapping[str, Tensor], token_ids: Tensor, target: Path, layout: Layout, name: str
) -> None:
    """Write config.json and model.safetensors into the existing `directory`.

    tensors: as `head_tensors` gives them · token_ids: [V_d] int64, ascending · name: the target's, for the reader
    """
    config, checkpoint = ModelConfig.from_directory(target), Checkpoint(target)
    in_vocabulary = torch.zeros(config.vocab_size, dtype=torch.bool)
    in_vocabulary[token_ids] = True
    whole = {
        **{key.replace(LAYER_PREFIXES["safeailab"], LAYER_PREFIXES[layout]): t for key, t in tensors.items()},
        "lm_head.weight": target_head(config, checkpoint, token_ids).to(DTYPE),
        "d2t": token_ids - torch.arange(len(token_ids)),
        "t2d": in_vocabulary,
    }
    save_file(whole, directory / "model.safetensors", metadata={"format": "pt"})
    raw = json.loads((target / "config.json").read_text("utf-8"))
    if layout == "safeailab":
        fields = _safeailab_config(raw, config.num_layers, len(token_ids))
    else:
        fields = _speculators_config(raw, config.num_layers, len(token_ids), name)
    (directory / "config.json").write_text(json.dumps(fields, indent=2) + "\n", "utf-8")


def _published(key: str, prefix: str = LAYER_PREFIXES["safeailab"]) -> str:
    """`q_proj.weight` -> `midlayer.self_attn.q_proj.weight`; what is not of the layer keeps its name."""
    module, _, rest = key.partition(".")
    return f"{prefix}{LAYER_MODULES[module]}.{rest}" if module in LAYER_MODULES else key


OPTIONS = {"norm_before_residual": False, "norm_before_fc": False, "fc_norm": True, "norm_output": True}


def layer_config(target: Mapping[str, Any]) -> dict[str, Any]:
    """Of a head of one Llama layer, as wide as the target. target: the content of its config.json"""
    left_out = ("architectures", "num_hidden_layers", "tie_word_embeddings", "torch_dtype", "dtype", "layer_types")
    kept = {name: value for name, value in target.items() if name not in left_out}
    own = {"model_type": "llama", "num_hidden_layers": 1, "attention_bias": False, "tie_word_embeddings": False}
    return {**kept, **own}


def _safeailab_config(target: Mapping[str, Any], layers: int, draft_vocab_size: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        **layer_config(target),
        "torch_dtype": "float16",
        "draft_vocab_size": draft_vocab_size,
        "target_hidden_size": target["hidden_size"],
        # In vLLM's convention: the layers whose inputs are meant.
        "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [*tap_layers(None, layers)]},
        **OPTIONS,
    }


def _speculators_config(target: Mapping[str, Any], layers: int, draft_vocab_size: int, name: str) -> dict[str, Any]:
    return {
        "architectures": ["Eagle3Speculator"],
        **speculators_fields("eagle3", target, name),
        "draft_vocab_size": draft_vocab_size,
        "target_hidden_size": target["hidden_size"],
        "eagle_aux_hidden_state_layer_ids": [*tap_layers(None, layers)],
        "embed_requires_grad": False,
        "tie_word_embeddings": False,
        **OPTIONS,
    }


def speculators_fields(method: str, target: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What every config.json of the speculators layout has. name: the target's, for the reader"""
    proposal = {"proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1, "accept_tolerance": 0.0}
    return {
        "speculators_model_type": method,
        "speculators_version": "0.9.0",
        "torch_dtype": "float16",
        "transformer_layer_config": layer_config(target),
        "speculators_config": {
            "algorithm": method,
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": name, "architectures": target["architectures"]},
        },
    }
