"""What a head is to predict at each place of recorded answers, and how it is marked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.config import ModelConfig
from specbench.train.batches import TrainingBatch

STEP_WEIGHT = 0.8
"""What each step's loss weighs, of the step before: a draft is only of use where all before it were accepted."""

EMBEDDINGS, HEAD, GAIN = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"


@dataclass(frozen=True, slots=True)
class StepResult:
    """One token of every draft.

    loss: scalar · hits, followed: [N] bool, of each chain that has a token to predict here: the head's choice is the
    recorded token; and so were all its choices before
    """

    loss: Tensor
    hits: Tensor
    followed: Tensor


@dataclass(frozen=True, slots=True)
class Chains:
    """The drafts that decoding a recorded answer could begin: chain i drafts token i+2, i+3, …

    at: [B, Q] int64, the position of each chain; beyond a row's last it runs on · last: [B, 1], of step 0
    """

    at: Tensor
    last: Tensor

    @classmethod
    def of(cls, batch: TrainingBatch) -> Chains:
        # The first answer token comes out of the prefill: the first draft is for the one after it.
        first, last = batch.first - 1, batch.lengths - 3
        width = int((last - first).max()) + 1
        at = first[:, None] + torch.arange(width, device=first.device)
        return cls(at.clamp_max(batch.tokens.shape[1] - 2), last[:, None])

    def valid(self, step: int) -> Tensor:
        """[B, Q] bool: whether a recorded answer token stands where this step drafts."""
        fresh = torch.ones_like(self.at, dtype=torch.bool)
        # Where `at` was clamped, neighbours are equal; only the first counts.
        fresh[:, 1:] = self.at[:, 1:] > self.at[:, :-1]
        return fresh & (self.at + step <= self.last)


class HeadModule(nn.Module, ABC):
    """A head that learns from its target's answers. Whatever it reads of the target is frozen.

    token_ids: [V_d] int64, ascending: the target's tokens over which it is compared with the target
    folded:    its norms begin at 1, so the gain of the target's final norm is a part of `head`; else it goes on from
               what the target's own head reads, and `gain` is applied before
    """

    head: Tensor
    gain: Tensor | None
    draft_ids: Tensor

    def __init__(self, config: ModelConfig, checkpoint: Checkpoint, token_ids: Tensor, *, folded: bool) -> None:
        super().__init__()
        self.config = config
        gain = checkpoint.tensor(GAIN).float()
        rows = target_rows(config, checkpoint)[token_ids].float()
        self.register_buffer("head", rows * gain if folded else rows, persistent=False)
        self.register_buffer("gain", None if folded else gain, persistent=False)
        # [V]: the place of a target's token among the draft's, -1 for those that it has not
        draft_ids = torch.full((config.vocab_size,), -1, dtype=torch.int64)
        draft_ids[token_ids] = torch.arange(len(token_ids))
        self.register_buffer("draft_ids", draft_ids, persistent=False)

    @abstractmethod
    def steps(self, progress: float) -> int:
        """Draft steps to learn when so much of the training is done (0 to 1)."""

    def final(self, hidden: Tensor) -> Tensor:
        """What left the target's last layer, as `head` reads it. [..., h] -> [..., h]"""
        return F.rms_norm(hidden, hidden.shape[-1:], self.gain, self.config.rms_norm_eps)

    @torch.no_grad()
    def targets(self, batch: TrainingBatch, chains: Chains, steps: int, rows: Tensor) -> Tensor:
        """[B, Q + steps - 1, len(rows)]: the target's probabilities for the token two after each chain."""
        return F.linear(self.final(self.ahead(batch, chains, steps)), rows).softmax(-1)

    @staticmethod
    def ahead(batch: TrainingBatch, chains: Chains, steps: int) -> Tensor:
        """[B, Q + steps - 1, h]: what left the target's last layer one place after each chain."""
        at = torch.cat([chains.at, chains.at[:, -1:] + torch.arange(1, steps, device=chains.at.device)], 1) + 1
        return take(batch.hidden[:, :, -1], at.clamp_max(batch.tokens.shape[1] - 1))

    def mark(
        self, hidden: Tensor, wanted: Tensor, valid: Tensor, targets: Tensor, followed: Tensor, rows: Tensor
    ) -> tuple[StepResult, Tensor]:
        """One step's result, and which chains were right in it ([B, Q]).

        hidden [B, Q, h] · wanted, valid, followed [B, Q] · targets [B, >= Q, len(rows)]
        """
        places = self.draft_ids[wanted]
        logits = F.linear(hidden[valid], rows)
        hits = logits.argmax(-1) == places[valid]
        # Where the target said what the draft cannot say, there is no lesson in what it should have said.
        lesson = (places[valid] >= 0).to(logits.dtype)
        losses = F.cross_entropy(logits, targets[:, : hidden.shape[1]][valid], reduction="none")
        loss = (losses * lesson).sum() / lesson.sum().clamp_min(1)
        hit = torch.zeros_like(valid)
        hit[valid] = hits
        return StepResult(loss, hits, followed[valid]), hit


def target_rows(config: ModelConfig, checkpoint: Checkpoint) -> Tensor:
    """[V, h]: the target's own head, as stored."""
    return checkpoint.tensor(EMBEDDINGS if config.tied_embeddings else HEAD)


def take(x: Tensor, at: Tensor) -> Tensor:
    """x [B, T, h] · at [B, Q] -> [B, Q, h]"""
    return x.gather(1, at[:, :, None].expand(-1, -1, x.shape[-1]))
