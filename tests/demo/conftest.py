"""A Llama of a few kilobytes in GGUF's layout, made from a Hugging Face model that it can be compared with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gguf
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '<end>' }}{% endfor %}"


@dataclass(frozen=True)
class TinyModel:
    gguf: Path
    original: LlamaForCausalLM


def _byte_alphabet() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def _write(model: LlamaForCausalLM, path: Path) -> None:
    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    tokens = ["<unk>", "<start>", "<end>", *_byte_alphabet(), "ab", "Ġab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(tokens) - 3))
    writer.add_token_merges(["a b", "Ġ ab"])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        parts = name.removesuffix(".weight").removeprefix("model.layers.").split(".")
        layer, module = (parts[0], ".".join(parts[1:])) if parts[0].isdigit() else ("", ".".join(parts))
        weight = tensor.float().numpy()
        heads = {"self_attn.q_proj": config.num_attention_heads, "self_attn.k_proj": config.num_key_value_heads}
        if module in heads:  # llama.cpp keeps the two rows that rotate together side by side
            halves = weight.reshape(heads[module], 2, config.head_dim // 2, config.hidden_size)
            weight = halves.swapaxes(1, 2).reshape(weight.shape)
        writer.add_tensor(f"blk.{layer}.{NAMES[module]}.weight" if layer else f"{NAMES[module]}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def tiny_model(request: pytest.FixtureRequest, tmp_path: Path) -> TinyModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=3 + 256 + 2,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
        tie_word_embeddings=request.param,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "original")
    # Read back, because .to(bfloat16) would round the rotary frequencies too.
    original = LlamaForCausalLM.from_pretrained(tmp_path / "original", dtype=torch.bfloat16).eval()
    path = tmp_path / "tiny.gguf"
    _write(original, path)
    return TinyModel(path, original)
