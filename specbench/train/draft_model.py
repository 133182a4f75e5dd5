"""A draft model distilled from its target: a few of the target's layers, taught to agree with all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.config import ModelConfig
from specbench.demo.pruned_draft import prune_layers
from specbench.digest import directory_digest
from specbench.train.batches import TrainingBatch
from specbench.train.data import Shards
from specbench.train.device import train_device
from specbench.train.draft_files import own_tensors, write_draft_model, write_reduced
from specbench.train.loop import Loss, LossReport, TrainSettings, train
from specbench.train.vocabulary import draft_vocabulary

OTHERS = 2048
"""Tokens outside the trained vocabulary that each batch draws, so that they too learn to be unlikely."""

DIRECTORY = "draft_model"
REDUCED = "draft_model_reduced"


@dataclass(frozen=True, slots=True)
class TrainedDraft:
    """model: transformers' causal language model · token_ids: [vocab] int64, what it was compared over"""

    model: Any
    token_ids: Tensor


def train_draft_model(
    target: Path,
    data: Shards,
    indexes: Sequence[int],
    output: Path,
    s: TrainSettings,
    layers: Sequence[int],
    vocab: int,
) -> TrainedDraft:
    """Distil on the records at `indexes`; `output`/draft_model is then an ordinary model directory in bfloat16, and
    `output`/draft_model_reduced the same with a head for `vocab` tokens alone.

    layers: those of the target that the draft model begins with · vocab: tokens over which the two are compared;
    embeddings and head stay the target's
    """
    from transformers import AutoModelForCausalLM

    device = train_device()
    directory = output / DIRECTORY
    prune_layers(target, directory, layers)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).to(device)
    model.get_input_embeddings().weight.requires_grad_(False)
    model.get_output_embeddings().weight.requires_grad_(False)
    token_ids = draft_vocabulary(data, indexes, model.config.vocab_size, vocab)
    identity = {
        "method": "draft_model",
        "target": directory_digest(target),
        "vocabulary": vocab,
        "layers": list(layers),
    }
    train(model, distillation_loss(model, target, token_ids), data, indexes, output, s, identity)
    tensors = own_tensors(model.state_dict())
    write_draft_model(directory, tensors, target)
    (reduced := output / REDUCED).mkdir(exist_ok=True)
    write_reduced(reduced, tensors, token_ids, target)
    return TrainedDraft(model, token_ids)


def distillation_loss(model: Any, target: Path, token_ids: Tensor) -> Loss:
    """Cross-entropy with the target's probabilities (the Kullback-Leibler divergence, but for a constant) at each place
    where a draft may begin, over `token_ids` and some others.

    model: transformers' causal language model
    """
    head: Tensor = model.get_output_embeddings().weight
    config = ModelConfig.from_directory(target)
    gain = Checkpoint(target).tensor("model.norm.weight").float().to(head.device)
    outside = torch.ones(len(head), dtype=torch.bool).index_fill_(0, token_ids, False).nonzero().flatten()

    def loss(batch: TrainingBatch, progress: float) -> LossReport:
        at = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
        # The first answer token comes out of the prefill; the last one has nothing after it.
        places = (at >= batch.first[:, None]) & (at < batch.lengths[:, None] - 1)
        read = model.model(batch.tokens, attention_mask=(at < batch.lengths[:, None]).long()).last_hidden_state[places]
        # A batch always draws the same others, so that a resumed training is the same training.
        generator = torch.Generator().manual_seed(int(batch.tokens.sum()))
        drawn = outside[torch.randperm(len(outside), generator=generator)[:OTHERS]]
        ids = torch.cat([token_ids, drawn]).to(head.device)
        rows = head[ids]
        with torch.no_grad():
            taught = F.rms_norm(batch.hidden[:, :, -1][places], gain.shape, gain, config.rms_norm_eps)
            p = F.linear(taught, rows).softmax(-1)
        logits = F.linear(read, rows)
        following = batch.tokens.roll(-1, 1)[places]
        return LossReport(
            loss=F.cross_entropy(logits, p),
            hits=(ids[logits.argmax(-1)] == following).sum()[None],
            reached=places.sum()[None],
        )

    return loss
