"""Speculative speculative decoding: while the target verifies a draft, the draft model drafts on for likely outcomes.

Kumar, Dao and May, "Speculative speculative decoding" (2026). An outcome is how many tokens are kept and the token that
comes after these. If it was among the guesses, the next draft is ready when verification ends. What comes out does not
depend on the guesses: a prepared draft is the one that would have been made afterwards, of the same noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from specbench.decoder import noise
from specbench.decoder.batch import Batch
from specbench.decoder.cache import Branches
from specbench.decoder.drafters.base import Draft, DrafterContext
from specbench.decoder.drafters.choose import choose
from specbench.decoder.drafters.draft_model import DraftModel, load_own_vocabulary
from specbench.decoder.fan_out import fan_out
from specbench.decoder.request import SequenceState

GUESSES_PER_OUTCOME = 4
"""On average, over the gamma + 1 numbers of tokens that may be kept."""


def guesses(gamma: int) -> int:
    """Next drafts that are prepared for a request in each step."""
    return GUESSES_PER_OUTCOME * (gamma + 1)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Next drafts of each row, F for as many outcomes.

    lengths: of the rows' texts before the outcome · outcomes: of each row, from (tokens kept, the token after them) to
    the index along F of the draft that was made for it · tokens [B, F, g] · probs [B, F, g, V], what they were drawn
    from, or None
    """

    lengths: list[int]
    outcomes: list[dict[tuple[int, int], int]]
    tokens: Tensor
    probs: Tensor | None

    def number(self, row: int, text: Sequence[int]) -> int | None:
        """Which of a row's drafts follows the text as it now is."""
        return self.outcomes[row].get((len(text) - self.lengths[row] - 1, text[-1]))


class SSD:
    """A draft model whose next drafts are prepared before the verdict on the present one.

    There is one device here, which prepares first and verifies then: that costs time where it would save some on two.
    What a second device would gain follows from how often drafts were ready and from the times of the phases
    (`Counters`).

    Under block verification drafts of sampled requests are never ready: its noise is new at every step.

    drafter: a draft model whose cache has `guesses(gamma) * gamma` slots beside a draft's · vocab_size: the target's
    """

    name = "ssd"
    needs_hidden: tuple[int, ...] = ()

    def __init__(self, drafter: DraftModel, gamma: int, vocab_size: int) -> None:
        self._drafter, self._gamma, self._vocab_size = drafter, gamma, vocab_size
        self._prepared: _Prepared | None = None
        self._new: set[int] = set()  # rows whose request has had no draft yet
        self._drafted: list[int] = []
        self._accepted = self._rejected = 1
        self.kv_bytes_per_token = drafter.kv_bytes_per_token
        self.weights_bytes = drafter.weights_bytes

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        self._drafter.prefill(row, sequence, hidden)
        self._new.add(row)

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        found = [None if limit == 0 else self._ready(batch, row) for row, limit in enumerate(limits)]
        late = [limit if number is None else 0 for number, limit in zip(found, limits, strict=True)]
        draft = self._drafter.propose(batch, late) if any(late) else Draft.none(batch)
        if self._prepared is not None and any(number is not None for number in found):
            draft = self._merged(batch, draft, self._prepared, found, limits)
        drafting = [row for row, limit in enumerate(limits) if limit > 0]
        ready = tuple(None if row in self._new else found[row] is not None for row in drafting)
        self._new.difference_update(drafting)
        self._drafted = draft.lengths().tolist()
        return replace(draft, ready=ready)

    def _ready(self, batch: Batch, row: int) -> int | None:
        """The number of the prepared draft for what came."""
        sequence = batch.sequences[row]
        if self._prepared is None or sequence is None or row in self._new:
            return None
        if batch.draft_stream == noise.BLOCK and sequence.request.params.temperature > 0:
            return None
        return self._prepared.number(row, sequence.tokens)

    def _merged(
        self, batch: Batch, late: Draft, prepared: _Prepared, found: Sequence[int | None], limits: Sequence[int]
    ) -> Draft:
        """The prepared drafts of the rows that have one, up to their limits; of the others what was drafted late."""
        ready = {row: (n, limits[row]) for row, n in enumerate(found) if n is not None}
        width = max(late.width, *(count for _, count in ready.values()))
        tokens, probs = pad(late.tokens, (0, width - late.width), value=-1), None
        if not batch.warp.all_greedy and batch.draft_stream != noise.TARGET:
            probs = torch.zeros(*tokens.shape, self._vocab_size, device=batch.device)
            if late.probs is not None:
                probs[:, : late.width] = late.probs
        for row, (number, count) in ready.items():
            tokens[row, :count] = prepared.tokens[row, number, :count]
            if probs is None:
                continue
            if prepared.probs is not None:
                probs[row, :count] = prepared.probs[row, number, :count]
            else:  # all were greedy then, so this row is
                probs[row, :count].scatter_(1, tokens[row, :count, None], 1.0)
        return Draft(tokens, probs)

    def prepare(self, batch: Batch, draft: Draft) -> None:
        self._prepared = None
        if draft.width == 0:
            self._drafted = [0] * batch.size
            return
        logits = self._after_each(batch, draft)
        alpha = self._accepted / (self._accepted + self._rejected)
        count = [
            min(n, min(logits.shape[2], self._vocab_size) - 1)
            for n in fan_out(guesses(self._gamma), draft.width, alpha)
        ]
        firsts = self._likeliest(logits, draft, count)
        kept = torch.repeat_interleave(torch.arange(draft.width + 1), torch.tensor(count))
        tokens, probs = self._draft_on(batch, firsts, kept.to(batch.device), draft.width)
        outcomes = [
            {outcome: number for number, outcome in enumerate(zip(kept.tolist(), row, strict=True))}
            for row in firsts.tolist()
        ]
        self._prepared = _Prepared(batch.lengths(), outcomes, tokens, probs)

    def _after_each(self, batch: Batch, draft: Draft) -> Tensor:
        """The draft model's logits after the newest token and after each drafted one, [B, 1 + g, V_d]."""
        newest, at = self._drafter.catch_up(batch)
        tokens = torch.cat([newest, draft.tokens.clamp_min(0)], 1)
        positions = torch.cat([at, at[:, -1:] + 1 + torch.arange(draft.width, device=batch.device)], 1)
        used = max(batch.lengths()) + draft.width
        view = self._drafter.cache.enter(slice(0, batch.size), positions, positions, used)
        self._drafter.saw(batch, draft.width)
        return self._drafter.model.forward(tokens, view, logits=1 + draft.width).logits

    def _likeliest(self, logits: Tensor, draft: Draft, count: Sequence[int]) -> Tensor:
        """The `count[k]` likeliest tokens after k kept ones, [B, F]: never the one drafted there, which would have been
        kept."""
        token_ids, found = self._drafter.model.token_ids, []
        drafted = pad(draft.tokens, (0, 1), value=-1)
        for k, number in enumerate(count):
            best = logits[:, k, : self._vocab_size if token_ids is None else None].topk(number + 1).indices
            tokens = best if token_ids is None else token_ids[best]
            others_first = (tokens == drafted[:, k : k + 1]).long().argsort(stable=True, dim=1)
            found.append(tokens.gather(1, others_first)[:, :number])
        return torch.cat(found, 1)

    def _draft_on(self, batch: Batch, tokens: Tensor, kept: Tensor, width: int) -> tuple[Tensor, Tensor | None]:
        """Drafts behind guesses, all in one batch: their entries are a tree's, behind the draft's own.

        tokens [B, F] · kept [F], drafted tokens that each follows, of `width` -> [B, F, g], [B, F, g, V] or None
        """
        model, cache, rows = self._drafter.model, self._drafter.cache, slice(0, batch.size)
        lengths = torch.tensor(batch.lengths(), dtype=torch.int64, device=batch.device)[:, None]
        drafted, probs, each = [], [], torch.arange(len(kept), device=batch.device)
        # What a guess sees of the draft: the tokens kept; of the guesses: itself.
        seen = torch.arange(width, device=batch.device) < kept[:, None]
        slots = lengths + torch.arange(width, device=batch.device)
        for depth in range(self._gamma):
            new = lengths + width + depth * len(kept) + each
            slots = torch.cat([slots, new], 1)
            seen = torch.cat([seen, each == each[:, None]], 1)
            positions = lengths + kept + depth
            branches = Branches(slots, seen.expand(batch.size, -1, -1))
            view = cache.enter(rows, new, positions, max(batch.lengths()) + width + (depth + 1) * len(kept), branches)
            logits = model.forward(tokens, view, logits=len(kept)).logits
            tokens, q = choose(batch, logits, positions + 1, self._vocab_size, model.token_ids)
            drafted.append(tokens)
            if q is not None:
                probs.append(q)
        cache.as_chain(rows, lengths[:, 0] - 1, width + self._gamma * len(kept))
        return torch.stack(drafted, 2), torch.stack(probs, 2) if probs else None

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        self._drafter.observe(batch, accepted, hidden)
        for sequence, kept, drafted in zip(batch.sequences, accepted, self._drafted, strict=True):
            if sequence is not None:
                self._accepted += kept
                self._rejected += kept < drafted

    def release(self, row: int) -> None:
        self._drafter.release(row)


def load(context: DrafterContext) -> SSD:
    """Raises ValueError where there is no directory, or its vocabulary is not the target's."""
    model, vocab_size = load_own_vocabulary("ssd", context), context.target.config.vocab_size
    slots = context.slots + guesses(context.gamma) * context.gamma
    return SSD(DraftModel(model, context.rows, slots, vocab_size=vocab_size), context.gamma, vocab_size)
