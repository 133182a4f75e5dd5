"""Training a head for a target, by any method: from its recorded answers to a module that has learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from specbench.train.eagle3_module import Eagle3Module
from specbench.train.fused_module import EagleModule, MtpModule
from specbench.train.head_files import trained_state
from specbench.train.lessons import STEP_WEIGHT, HeadModule
from specbench.train.loop import Loss, LossReport, TrainSettings, train
from specbench.train.medusa_module import MedusaModule
from specbench.train.vocabulary import draft_vocabulary

MODULES: dict[str, Callable[[ModelConfig, Checkpoint, Tensor], HeadModule]] = {
    "eagle3": Eagle3Module,
    "eagle": EagleModule,
    "medusa": MedusaModule,
    "mtp": MtpModule,
}


@dataclass(frozen=True, slots=True)
class TrainedHead:
    """module: what was trained · token_ids: [V_d] the tokens over which it was compared with the target"""

    module: HeadModule
    token_ids: Tensor


def recorded_taps(num_layers: int) -> tuple[int, ...]:
    """The layers whose inputs are recorded: EAGLE-3's taps, then what the target's own head reads."""
    return (*tap_layers(None, num_layers), num_layers)


def train_head(
    method: str,
    target: Path,
    data: Shards,
    indexes: Sequence[int],
    output: Path,
    settings: TrainSettings,
    vocabulary: int,
    initial: Path | None = None,
) -> TrainedHead:
    """Train on the records at `indexes`, or go on with what `output` has of the same training.

    initial: an EAGLE-3 head to begin with, in either layout; its vocabulary is chosen anew
    """
    config, checkpoint = ModelConfig.from_directory(target), Checkpoint(target)
    token_ids = draft_vocabulary(data, indexes, config.vocab_size, vocabulary)
    torch.manual_seed(settings.seed)
    module = MODULES[method](config, checkpoint, token_ids).to(train_device())
    if initial is not None:
        module.load_state_dict(trained_state(initial, config))
    identity = {
        "method": method,
        "target": directory_digest(target),
        "vocabulary": vocabulary,
        "initial": None if initial is None else directory_digest(initial),
    }
    train(module, head_loss(module), data, indexes, output, settings, identity)
    return TrainedHead(module, token_ids)


def head_loss(module: HeadModule) -> Loss:
    """The steps' losses, each weighing less than the one before."""

    def loss(batch: TrainingBatch, progress: float) -> LossReport:
        steps = module(batch, module.steps(progress))
        return LossReport(
            loss=torch.stack([STEP_WEIGHT**j * step.loss for j, step in enumerate(steps)]).sum(),
            hits=torch.stack([(step.hits & step.followed).sum() for step in steps]),
            reached=torch.stack([step.followed.sum() for step in steps]),
        )

    return loss
