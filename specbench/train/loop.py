"""The training loop that both drafters share: AdamW on a cosine, with checkpoints that a killed run goes on from."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from specbench.errors import SpecbenchError
from specbench.store.atomic import replacing
from specbench.train.batches import TrainingBatch, epoch_order
from specbench.train.data import Shards
from specbench.train.device import train_device

logger = logging.getLogger(__name__)

CHECKPOINT_SECONDS = 60.0
REPORT_STEPS = 25


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """epochs: passes over the records · batch_tokens: of a batch, padding included · learning_rate: the highest
    warmup_steps: over which it rises · seed: of the initial weights and the order of the records
    """

    epochs: int = 5
    batch_tokens: int = 2048
    learning_rate: float = 2e-3
    warmup_steps: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate <= 1:
            raise SpecbenchError(f"--learning-rate must be above 0 and at most 1; got {self.learning_rate}.")


@dataclass(frozen=True, slots=True)
class LossReport:
    """loss: scalar to be lowered · hits: [k] of each draft step, chains that were right so far and stayed so · reached:
    [k] of each draft step, chains that were right before it. Their ratio is the conditional acceptance of greedy text.
    """

    loss: Tensor
    hits: Tensor
    reached: Tensor


Loss = Callable[[TrainingBatch, float], LossReport]
"""Of a batch, and of the share of the training that is done (0 to 1)."""


def train(
    module: nn.Module,
    loss: Loss,
    data: Shards,
    indexes: Sequence[int],
    output: Path,
    s: TrainSettings,
    identity: Mapping[str, Any],
) -> None:
    """Train `module` in place on the records at `indexes`; `output`/checkpoint.pt is gone on from if it is there.

    identity: what the module is and what it began with, JSON values
    Raises SpecbenchError if that checkpoint belongs to another module, other settings or another number of records.
    """
    lengths = [data.lengths()[i] for i in indexes]
    epochs = [epoch_order(lengths, s.batch_tokens, epoch, s.seed) for epoch in range(s.epochs)]
    order = [batch for epoch in epochs for batch in epoch]
    parameters = [p for p in module.parameters() if p.requires_grad]
    device = parameters[0].device
    optimizer = torch.optim.AdamW(parameters, lr=s.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    checkpoint = _Checkpoint(
        output / "checkpoint.pt", {**identity, **asdict(s), "records": len(indexes), "steps": len(order)}
    )
    begin = checkpoint.load(module, optimizer)
    saved = started = time.monotonic()
    recent: list[LossReport] = []
    tokens = 0
    for step in range(begin, len(order)):
        for group in optimizer.param_groups:
            group["lr"] = s.learning_rate * _schedule(step, len(order), s.warmup_steps)
        batch = TrainingBatch.of([data[indexes[i]] for i in order[step]], device)
        report = loss(batch, step / len(order))
        optimizer.zero_grad()
        report.loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        recent.append(LossReport(report.loss.detach(), report.hits, report.reached))
        tokens += int(batch.lengths.sum())
        if len(recent) == REPORT_STEPS or step + 1 == len(order):
            seconds = time.monotonic() - started
            logger.info(
                "step %d of %d (epoch %.1f): %s; %.0f tokens/s, %.0f min left", step + 1, len(order),
                s.epochs * (step + 1) / len(order), summarise(recent), tokens / seconds,
                seconds / (step + 1 - begin) * (len(order) - step - 1) / 60,
            )  # fmt: skip
            recent = []
        if time.monotonic() - saved > CHECKPOINT_SECONDS or step + 1 == len(order):
            checkpoint.save(module, optimizer, step + 1)
            saved = time.monotonic()


@torch.no_grad()
def held_out(loss: Loss, data: Shards, indexes: Sequence[int], batch_tokens: int) -> list[float]:
    """Conditional acceptance of each draft step on records that were not trained on."""
    device = train_device()
    lengths = [data.lengths()[i] for i in indexes]
    batches = ([data[indexes[i]] for i in batch] for batch in epoch_order(lengths, batch_tokens, epoch=0))
    return _rates([loss(TrainingBatch.of(records, device), 1.0) for records in batches])


def summarise(reports: Sequence[LossReport]) -> str:
    """One line for people."""
    rates = " ".join(f"{rate:.3f}" for rate in _rates(reports))
    return f"loss {sum(float(r.loss) for r in reports) / len(reports):.3f}, conditional acceptance {rates}"


def _rates(reports: Sequence[LossReport]) -> list[float]:
    """Over the reports that go as far as the last one does."""
    alike = [r for r in reports if len(r.hits) == len(reports[-1].hits)]
    hits, reached = (torch.stack([getattr(r, name) for r in alike]).sum(0) for name in ("hits", "reached"))
    return (hits / reached.clamp_min(1)).tolist()


def _schedule(step: int, steps: int, warmup: int) -> float:
    """The share of the highest learning rate: a linear rise, then a cosine to zero."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    path: Path
    identity: dict[str, Any]

    def load(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """The step to go on with; 0 where there is no checkpoint."""
        if not self.path.exists():
            return 0
        # Wherever it was saved: what it is loaded into has its own device.
        saved = torch.load(self.path, map_location="cpu", weights_only=True)
        if saved["identity"] != self.identity:
            raise SpecbenchError(
                f"{self.path} is a checkpoint of another training ({json.dumps(saved['identity'])}; asked was "
                f"{json.dumps(self.identity)}). Give another --output, or remove it."
            )
        module.load_state_dict(saved["module"])
        optimizer.load_state_dict(saved["optimizer"])
        logger.info("going on from step %d", saved["step"])
        step: int = saved["step"]
        return step

    def save(self, module: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        content = {
            "identity": self.identity,
            "module": module.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
        }
        with replacing(self.path) as partial:
            torch.save(content, partial)
