"""Tiny random models with a byte tokenizer, saved as ordinary Hugging Face directories; `planted` is importable."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.sampling import SamplingParams
from specbench.train.draft_files import write_reduced

sys.path.append(str(Path(__file__).parent))

SPECIAL_TOKENS = ("<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}"
    "{% if m['role'] == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Models this small only lose by parallelism."""
    torch.set_num_threads(1)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte (so a character of several bytes takes several tokens), and two special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", clean_up_tokenization_spaces=False
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


@pytest.fixture(scope="session")
def save_llama(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Save a random Llama with its tokenizer; keyword arguments go into its config. Returns the directory."""

    def save(seed: int = 0, **config: Any) -> Path:
        torch.manual_seed(seed)
        settings = {
            "vocab_size": 258,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 256,
            # Ten times the usual: logits with a clear winner, as a trained model has.
            "initializer_range": 0.2,
            "bos_token_id": None,
            "eos_token_id": 257,
        }
        directory = tmp_path_factory.mktemp("llama")
        LlamaForCausalLM(LlamaConfig(**{**settings, **config})).save_pretrained(directory)
        byte_tokenizer().save_pretrained(directory)
        return directory

    return save


@pytest.fixture(scope="session")
def target(save_llama: Callable[..., Path]) -> Path:
    """Directory of a tiny target whose middle layers matter little, as in trained models."""
    directory = save_llama()
    model = LlamaForCausalLM.from_pretrained(directory)
    for layer in model.model.layers[1:3]:
        layer.self_attn.o_proj.weight.data.mul_(0.2)
        layer.mlp.down_proj.weight.data.mul_(0.2)
    model.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def pruned(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of the target without its two middle layers: a drafter that is right now and then."""
    model = LlamaForCausalLM.from_pretrained(target)
    model.model.layers = torch.nn.ModuleList([model.model.layers[0], model.model.layers[3]])
    model.config.num_hidden_layers = 2
    directory = tmp_path_factory.mktemp("pruned")
    model.save_pretrained(directory)
    byte_tokenizer().save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def reduced(pruned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pruned model with a head for every token but one in three."""
    directory = tmp_path_factory.mktemp("reduced")
    state = LlamaForCausalLM.from_pretrained(pruned).state_dict()
    tensors = {name: tensor for name, tensor in state.items() if not name.startswith(("model.embed", "lm_head"))}
    write_reduced(directory, tensors, torch.tensor([t for t in range(258) if t % 3]), pruned)
    return directory


@pytest.fixture(scope="module")
def engine(target: Path, pruned: Path, reduced: Path) -> Callable[..., Engine]:
    """An engine over the tiny target; `self` is the target as its own draft, `pruned` its layer-pruned copy, `reduced`
    that with a head for a part of the vocabulary; `ssd`, `ssd-self` and `ssd-reduced` prepare drafts of these."""
    drafters = {
        **{"self": ("draft_model", target), "pruned": ("draft_model", pruned), "reduced": ("draft_model", reduced)},
        **{"ssd": ("ssd", pruned), "ssd-self": ("ssd", target), "ssd-reduced": ("ssd", reduced)},
    }

    def make(method: str = "none", gamma: int | str = 0, **settings: Any) -> Engine:
        name, drafter = drafters.get(method, (method, None))
        return load_engine(
            target,
            method=name,
            gamma=gamma,
            drafter=drafter,
            **{"max_model_len": 64, **settings},
        )

    return make


@pytest.fixture(scope="module")
def plain(engine: Callable[..., Engine]) -> Callable[..., dict[str, list[int]]]:
    """Tokens of plain decoding, one request at a time."""
    from asking import requests
    from driving import run, tokens

    @cache
    def decode(*params: SamplingParams, **settings: Any) -> dict[str, list[int]]:
        return tokens(run(engine(max_batch_size=1, **settings), requests(*params)))

    return decode
