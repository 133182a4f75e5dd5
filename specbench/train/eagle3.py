"""Training an EAGLE-3 head for a target: from its recorded answers to a head in the layouts that engines load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.config import ModelConfig
from specbench.decoder.models.eagle3_config import tap_layers
from specbench.digest import directory_digest
from specbench.train.batches import TrainingBatch
from specbench.train.data import Shards
from specbench.train.device import train_device
from specbench.train.eagle3_module import STEP_WEIGHT, Eagle3Module
from specbench.train.head_files import target_head, trained_state
from specbench.train.loop import Loss, LossReport, TrainSettings, train
from specbench.train.vocabulary import draft_vocabulary

STEPS = 3
FIRST_STEP_SHARE = 0.3
"""The share of the training that is spent on the first draft step alone: the others start from what it learned."""


@dataclass(frozen=True, slots=True)
class TrainedHead:
    """module: the trained layer · token_ids: [V_d] what its head can say"""

    module: Eagle3Module
    token_ids: Tensor


def recorded_taps(num_layers: int) -> tuple[int, ...]:
    """The layers whose inputs are recorded: the head's taps, then what the target's own head reads."""
    return (*tap_layers(None, num_layers), num_layers)


def train_eagle3(
    target: Path,
    data: Shards,
    indexes: Sequence[int],
    output: Path,
    settings: TrainSettings,
    vocabulary: int,
    initial: Path | None = None,
) -> TrainedHead:
    """Train on the records at `indexes`, or go on with what `output` has of the same training.

    initial: a head to begin with, in either layout; its vocabulary is chosen anew
    """
    device = train_device()
    config, checkpoint = ModelConfig.from_directory(target), Checkpoint(target)
    token_ids = draft_vocabulary(data, indexes, config.vocab_size, vocabulary)
    torch.manual_seed(settings.seed)
    module = Eagle3Module(
        config,
        taps=len(tap_layers(None, config.num_layers)),
        embeddings=checkpoint.tensor("model.embed_tokens.weight").float(),
        head=target_head(config, checkpoint, token_ids),
        token_ids=token_ids,
    ).to(device)
    if initial is not None:
        module.load_state_dict(trained_state(initial, config))
    identity = {
        "method": "eagle3",
        "target": directory_digest(target),
        "vocabulary": vocabulary,
        "initial": None if initial is None else directory_digest(initial),
    }
    train(module, eagle3_loss(module), data, indexes, output, settings, identity)
    return TrainedHead(module, token_ids)


def eagle3_loss(module: Eagle3Module) -> Loss:
    """The loss of the training-time test, its later steps joining in after `FIRST_STEP_SHARE` of the training."""

    def loss(batch: TrainingBatch, progress: float) -> LossReport:
        steps = module(batch, STEPS if progress >= FIRST_STEP_SHARE else 1)
        return LossReport(
            loss=torch.stack([STEP_WEIGHT**j * step.loss for j, step in enumerate(steps)]).sum(),
            hits=torch.stack([(step.hits & step.followed).sum() for step in steps]),
            reached=torch.stack([step.followed.sum() for step in steps]),
        )

    return loss
