"""A distilled draft model as files: an ordinary model directory, and one whose head speaks only frequent tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from specbench.decoder.checkpoint import Checkpoint
from specbench.demo.pruned_draft import copy_settings

EMBEDDINGS, HEAD, OFFSETS = "model.embed_tokens.weight", "lm_head.weight", "d2t"


def own_tensors(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What distillation changed: all but embeddings and head, which are the target's. In bfloat16, on the CPU."""
    return {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
        for name, tensor in state.items()
        if name not in (EMBEDDINGS, HEAD)
    }


def write_draft_model(directory: Path, tensors: Mapping[str, Tensor], target: Path) -> None:
    """An ordinary Hugging Face model in the existing `directory`, with the target's whole vocabulary.

    tensors: as `own_tensors` gives them
    """
    checkpoint = Checkpoint(target)
    shared = {name: checkpoint.tensor(name) for name in (EMBEDDINGS, HEAD) if name in checkpoint}
    _write(directory, {**tensors, **shared}, target, {})


def write_reduced(directory: Path, tensors: Mapping[str, Tensor], token_ids: Tensor, target: Path) -> None:
    """A model whose logits stand for `token_ids` ([V_d] int64, ascending) alone; only the reference decoder loads it.

    As in EAGLE-3 heads `d2t` holds token less number, and config.json has `draft_vocab_size`.
    """
    checkpoint = Checkpoint(target)
    embeddings = checkpoint.tensor(EMBEDDINGS)
    head = checkpoint.tensor(HEAD) if HEAD in checkpoint else embeddings
    own = {
        EMBEDDINGS: embeddings,
        HEAD: head[token_ids].contiguous(),
        OFFSETS: token_ids - torch.arange(len(token_ids)),
    }
    fields = {"tie_word_embeddings": False, "draft_vocab_size": len(token_ids)}
    _write(directory, {**tensors, **own}, target, fields)


def _write(directory: Path, tensors: Mapping[str, Tensor], target: Path, fields: Mapping[str, object]) -> None:
    save_file(dict(tensors), directory / "model.safetensors", metadata={"format": "pt"})
    layers = {int(match[1]) for name in tensors if (match := re.match(r"model\.layers\.(\d+)\.", name))}
    copy_settings(target, directory, num_hidden_layers=len(layers), **fields)
