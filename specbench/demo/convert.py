"""GGUF to an ordinary Hugging Face directory, so that every engine serves the very same files.

Why not transformers' own GGUF loader: it needs accelerate, writes files that only transformers 5 reads, and its
tokenizer does not split off digits first as SmolLM2's does, so that numbers after white space come out as other tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from gguf.constants import TokenType
from gguf.quants import dequantize
from safetensors.torch import save
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")

MODULES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""GGUF's name of a module -> Hugging Face's."""


def convert(gguf: Path, directory: Path) -> None:
    """Write FILES for a Llama-architecture GGUF with SmolLM's tokenizer into the existing `directory`; weights in bf16.

    config.json is in the form that transformers 4 and 5 (so every engine's pin) both read.
    """
    reader = GGUFReader(gguf)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    weights = _weights(reader, heads=_heads(fields))
    special_ids = {
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
    }
    _write(directory / "config.json", _config(fields, tied="lm_head.weight" not in weights) | special_ids)
    _write(directory / "generation_config.json", special_ids)
    _write(directory / "tokenizer_config.json", _tokenizer_config(fields))
    _tokenizer(fields).save(str(directory / "tokenizer.json"))
    # Through bytes, because safetensors' own file writer reports a full disk as a SafetensorError without errno.
    (directory / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))


def _write(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def _heads(fields: Mapping[str, Any]) -> dict[str, int]:
    return {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}


def _config(fields: Mapping[str, Any], tied: bool) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "head_dim": fields["llama.rope.dimension_count"],
        "max_position_embeddings": fields["llama.context_length"],
        "rope_theta": fields["llama.rope.freq_base"],
        "rope_scaling": None,
        # GGUF stores a float32: 1e-05 reads as 9.999999747378752e-06.
        "rms_norm_eps": float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
    }


def _weights(reader: GGUFReader, heads: Mapping[str, int]) -> dict[str, torch.Tensor]:
    weights = {}
    for tensor in reader.tensors:
        *layer, module, _ = tensor.name.split(".")
        # [out, in] or [out]
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        if module in heads:
            weight = _halves_apart(weight, heads[module])
        prefix = f"model.layers.{layer[1]}." if layer else ""
        weights[f"{prefix}{MODULES[module]}.weight"] = weight.to(torch.bfloat16)
    return weights


def _halves_apart(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Undo llama.cpp's row order of q and k: rotary pairs stand side by side there, half a head apart here."""
    # weight [heads * head_dim, in] -> [heads, head_dim / 2, 2, in] -> [heads, 2, head_dim / 2, in]
    pairs = weight.view(heads, -1, 2, weight.shape[1])
    return pairs.transpose(1, 2).reshape(weight.shape)


def _tokenizer(fields: Mapping[str, Any]) -> Tokenizer:
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = (token for token, kind in zip(tokens, types, strict=True) if kind == TokenType.CONTROL)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


def _tokenizer_config(fields: Mapping[str, Any]) -> dict[str, Any]:
    tokens = fields["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[fields["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[fields["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[fields["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[fields["tokenizer.ggml.unknown_token_id"]],
        "clean_up_tokenization_spaces": False,
        "model_max_length": fields["llama.context_length"],
        "chat_template": fields["tokenizer.chat_template"],
    }
