"""A draft model of another vocabulary: its drafts become the target's tokens by way of text.

Universal assisted decoding; string-level matching in Timor et al., "Accelerating LLM inference with lossless
speculative decoding algorithms for heterogeneous vocabularies" (2025, arXiv 2502.05202). The draft model decodes
greedily, so that a draft is a function of the text and nothing else: the target then verifies it as it does a lookup,
whoever samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from tokenizers import Tokenizer
from torch import Tensor

from specbench.decoder import noise
from specbench.decoder.batch import Batch
from specbench.decoder.drafters.base import Draft
from specbench.decoder.request import Request, SequenceState
from specbench.decoder.sampling import SamplingParams
from specbench.decoder.text import REPLACEMENT

if TYPE_CHECKING:
    from specbench.decoder.drafters.draft_model import DraftModel

_GREEDY = SamplingParams(temperature=0.0)

_CONTEXT = 16
"""Tokens of the target that a draft's text is tokenized behind, since a word's tokens depend on what precedes it."""


@dataclass(slots=True)
class _Row:
    """sequence: the request · text: it in the draft model's tokens · entered: those that its cache holds, in order"""

    sequence: SequenceState
    text: SequenceState
    entered: list[int]


class UniversalDraftModel:
    """Follows each request in the draft model's own tokens, and drafts as many of these as the target may be given.

    drafter: of its own vocabulary · own, targets: the tokenizers of both · vocab_size: the target's
    """

    name = "draft_model"
    needs_hidden: tuple[int, ...] = ()

    def __init__(self, drafter: DraftModel, own: Tokenizer, targets: Tokenizer, vocab_size: int) -> None:
        if own.get_vocab_size() > drafter.model.config.vocab_size:
            raise ValueError(
                f"the draft model's tokenizer has {own.get_vocab_size()} tokens and the model "
                f"{drafter.model.config.vocab_size}: they do not belong together. Choose another draft model."
            )
        self._drafter, self._own, self._targets, self._vocab_size = drafter, own, targets, vocab_size
        self._rows: dict[int, _Row] = {}
        self.kv_bytes_per_token = drafter.kv_bytes_per_token
        self.weights_bytes = drafter.weights_bytes

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        text = SequenceState(Request(sequence.request.id, (), _GREEDY), frozenset(), self._drafter.cache.slots)
        text.tokens = self._follow(sequence)
        self._rows[row] = _Row(sequence, text, [])
        if text.room > 0:
            self._drafter.prefill(row, text, None)
            self._rows[row].entered = list(text.tokens)

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        texts = [self._catch_up(row, sequence) for row, sequence in enumerate(batch.sequences)]
        # Each row runs as far as the longest draft. A text that then needs more places than the draft model's cache has
        # sits out, and its first place is written over.
        theirs = [text if text is not None and text.room >= max(limits) else None for text in texts]
        for row, text in enumerate(theirs):
            if text is None and row in self._rows:
                self._rows[row].entered = []
        most = [0 if text is None else limit for text, limit in zip(theirs, limits, strict=True)]
        if not any(most):
            return Draft.none(batch)
        proposal = self._drafter.propose(Batch.of(theirs, noise.DRAFT, batch.device), most)
        drafts = [
            [] if text is None else self._draft(row, text, drafted)[:limit]
            for row, (text, drafted, limit) in enumerate(zip(theirs, proposal.tokens.tolist(), limits, strict=True))
        ]
        return Draft.of(drafts, batch.device)

    def _draft(self, row: int, text: SequenceState, padded: Sequence[int]) -> list[int]:
        """A row's draft in the target's tokens, from one in the draft model's with -1 behind it."""
        state, drafted = self._rows[row], list(takewhile(lambda token: token >= 0, padded))
        state.entered = [*text.tokens, *drafted[:-1]]
        return self._translate(state.sequence.tokens, self._text_of(state, drafted)) if drafted else []

    def _follow(self, sequence: SequenceState) -> list[int]:
        """A request in the draft model's tokens; never empty. A character that is not whole yet is left out."""
        text = self._targets.decode(sequence.tokens, skip_special_tokens=False).rstrip(REPLACEMENT)
        ids: list[int] = self._own.encode(text, add_special_tokens=False).ids
        return ids or [0]

    def _catch_up(self, row: int, sequence: SequenceState | None) -> SequenceState | None:
        """The row in the draft model's tokens, up to the newest. What these share with its cache stays there."""
        if sequence is None:
            return None
        state = self._rows[row]
        tokens = state.text.tokens = self._follow(sequence)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(tokens, state.entered, strict=False)))
        self._drafter.rewind(row, min(same, len(tokens) - 1))
        return state.text

    def _text_of(self, row: _Row, drafted: Sequence[int]) -> str:
        """What a draft adds to the text. By itself a token may decode without its space."""
        context = row.text.tokens[-_CONTEXT:]
        before, both = (self._own.decode(ids, skip_special_tokens=False) for ids in (context, [*context, *drafted]))
        return both[len(before) :].rstrip(REPLACEMENT)

    def _translate(self, text: Sequence[int], new: str) -> list[int]:
        """What a draft adds to `text` in the target's tokens; nothing within a character."""
        before = self._targets.decode(text[-_CONTEXT:], skip_special_tokens=False)
        if before.endswith(REPLACEMENT) or not new:
            return []
        known, both, alone = (
            self._targets.encode(part, add_special_tokens=False).ids for part in (before, before + new, new)
        )
        # Where the last word goes on, its tokens are no longer those that were emitted: the rest is taken by itself.
        tokens = both[len(known) :] if both[: len(known)] == known else alone
        return list(takewhile(lambda token: token < self._vocab_size, tokens))

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        pass

    def release(self, row: int) -> None:
        self._rows.pop(row, None)
        self._drafter.release(row)
