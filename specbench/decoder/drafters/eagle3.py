"""EAGLE-3: a small head drafts from the target's own hidden states (Li et al., 2025)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.cache import KVCache
from specbench.decoder.drafters.base import Draft, DrafterContext
from specbench.decoder.drafters.choose import choose
from specbench.decoder.drafters.unsure import UnsureStop
from specbench.decoder.models.eagle3 import Eagle3Head
from specbench.decoder.models.prefill import CHUNK
from specbench.decoder.request import SequenceState


class Eagle3Drafter:
    """Drafts greedily for greedy rows, and for others samples from its own distribution, warped as the target's is.

    Each draft begins with one pass over all positions that the target has verified since the last one, with the
    target's true features; it overwrites what the head had entered there from its own output. Features wait for that
    pass, however many steps without a draft lie between.
    """

    name = "eagle3"

    def __init__(self, head: Eagle3Head, rows: int, slots: int, stop_below: float | None = None) -> None:
        self.head, self._stop_below = head, stop_below
        self._cache = KVCache(head.config.layer, rows, slots, head.dtype, head.device)
        # Per row: the target's features of the newest positions, [taps, hidden_size] each times their number. The
        # last of them is that of the newest token but one.
        self._waiting: list[list[Tensor]] = [[] for _ in range(rows)]
        self._nothing = torch.zeros(
            1, len(head.config.taps), head.config.target_hidden_size, dtype=head.dtype, device=head.device
        )
        self.needs_hidden = head.config.taps
        self.kv_bytes_per_token = self._cache.bytes_per_token
        self.weights_bytes = head.weights_bytes

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        assert hidden is not None
        self._cache.clear(row)
        # The prompt's last position waits: the token to pair it with is not known yet.
        following, features = sequence.tokens[1:], hidden[0]
        for start in range(0, len(following), CHUNK):
            tokens = torch.tensor([following[start : start + CHUNK]], dtype=torch.int64, device=self.head.device)
            end = start + tokens.shape[1]
            positions = torch.arange(start, end, device=self.head.device)[None]
            view = self._cache.at(slice(row, row + 1), positions, positions, used=end)
            self.head.forward(tokens, self.head.fuse(features[None, start:end]), view)
        self._waiting[row] = [features[-1:]]

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        head, longest = self.head, max(batch.lengths())
        chunks = zip(*(torch.split(x, CHUNK, 1) for x in self._verified(batch)), strict=True)
        *earlier, (tokens, positions, features) = chunks
        for missed, at, theirs in earlier:  # after a long time without a draft
            head.forward(missed, head.fuse(theirs), self._cache.at(slice(0, batch.size), at, at, used=longest - 1))
        hidden = head.fuse(features)
        stop = None if self._stop_below is None else UnsureStop(self._stop_below, limits)
        drafted, probs = [], []
        for step in range(max(limits)):
            view = self._cache.at(slice(0, batch.size), positions, positions, used=longest - 1 + step)
            logits, hidden = head.forward(tokens, hidden, view)
            tokens, q = choose(batch, logits, positions[:, -1:] + 2, head.config.layer.vocab_size, head.token_ids)
            positions = positions[:, -1:] + 1
            drafted.append(tokens)
            if q is not None:
                probs.append(q)
            if stop is not None and stop.is_over(step + 1, logits, tokens, head.token_ids):
                break
        return Draft.chain(drafted, probs, limits if stop is None else stop.limits)

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        assert hidden is not None
        for row, kept in enumerate(accepted):
            if batch.sequences[row] is not None:
                self._waiting[row].append(hidden[row, : kept + 1])

    def release(self, row: int) -> None:
        self._waiting[row] = []

    def _verified(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Of each row the pairs that wait, aligned on the right: tokens and positions [B, w], features [B, w, taps, h].

        A shorter row repeats its first pair, at its place: entering it again changes nothing.
        """
        waiting = [
            [self._nothing] if sequence is None else self._waiting[row] for row, sequence in enumerate(batch.sequences)
        ]
        counts = [sum(map(len, features)) for features in waiting]
        width = max(counts)
        newest, at = batch.newest(width)
        for row, count in enumerate(counts):
            padding = width - count
            newest[row][:padding] = [newest[row][padding]] * padding
            at[row][:padding] = [at[row][padding]] * padding
            waiting[row] = [*[waiting[row][0][:1]] * padding, *waiting[row]]
            if batch.sequences[row] is not None:
                self._waiting[row] = []
        tokens, places = (torch.tensor(x, dtype=torch.int64, device=batch.device) for x in (newest, at))
        # The pair of a token belongs to the position before it; a dead row's only token stays at 0.
        return tokens, (places - 1).clamp_min_(0), torch.stack([torch.cat(features) for features in waiting])


def load(context: DrafterContext) -> Eagle3Drafter:
    """Raises ValueError where there is no directory, or the head in it was made for another target."""
    if context.directory is None:
        raise ValueError("method eagle3 needs the directory of an EAGLE-3 head.")
    head = Eagle3Head.from_directory(context.directory, context.target)
    return Eagle3Drafter(head, context.rows, context.slots, context.stop_below)
