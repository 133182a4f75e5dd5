"""Drafting token by token with a head of one layer over the target's hidden states: EAGLE-1, EAGLE-3 and MTP alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Protocol

import torch
from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.cache import Branches, CacheView, KVCache
from specbench.decoder.config import ModelConfig
from specbench.decoder.drafters.base import Draft
from specbench.decoder.drafters.chain import Drawn, drafted
from specbench.decoder.drafters.choose import choose
from specbench.decoder.drafters.growth import begin
from specbench.decoder.drafters.unsure import UnsureStop
from specbench.decoder.models.prefill import CHUNK
from specbench.decoder.request import SequenceState
from specbench.decoder.tree_shape import TreeShape


class HeadConfig(Protocol):
    """layer: the head's own decoder layer · target_hidden_size: width of the target's features
    taps: the target's layers whose inputs it reads (Hugging Face's `hidden_states[i]`)
    """

    @property
    def layer(self) -> ModelConfig: ...
    @property
    def target_hidden_size(self) -> int: ...
    @property
    def taps(self) -> tuple[int, ...]: ...


class FeatureHead(Protocol):
    """A pair is the target's features of token i and the embedding of token i+1; it stands at position i, and predicts
    token i+2. Where the target has not been yet, the head's own output of the step before stands in for the features.

    token_ids: [V_d] int64: the target's token that each logit stands for; None for the target's whole vocabulary
    """

    @property
    def config(self) -> HeadConfig: ...

    dtype: torch.dtype
    device: torch.device
    weights_bytes: int

    @property
    def token_ids(self) -> Tensor | None: ...

    def fuse(self, features: Tensor) -> Tensor:
        """What enters the layer from the target's features. features [..., taps, target_hidden_size] -> [..., h]"""

    def forward(self, tokens: Tensor, hidden: Tensor, view: CacheView, last: int = 1) -> tuple[Tensor, Tensor]:
        """The logits of the last pairs, and what takes the place of features in the next draft step.

        tokens [B, w] int64, each one place after the position of its pair · hidden [B, w, h], fused features or own
        output · view: at the pairs' positions · last: of how many pairs ->
        logits [B, last, V_d], own output [B, last, h]
        """


class FeatureDrafter:
    """Drafts greedily for greedy rows, and for others samples from its own distribution, warped as the target's is.

    Each draft begins with one pass over all positions that the target has verified since the last one, with the
    target's true features; it overwrites what the head had entered there from its own output. Features wait for that
    pass, however many steps without a draft lie between.
    """

    name: str

    def __init__(
        self, head: FeatureHead, rows: int, slots: int, stop_below: float | None = None, tree: TreeShape | None = None
    ) -> None:
        self.head, self._stop_below, self.tree = head, stop_below, tree
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
            view = self._cache.enter(slice(row, row + 1), positions, positions, used=end)
            self.head.forward(tokens, self.head.fuse(features[None, start:end]), view)
        self._waiting[row] = [features[-1:]]

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        head, longest = self.head, max(batch.lengths())
        chunks = zip(*(torch.split(x, CHUNK, 1) for x in self._verified(batch)), strict=True)
        *earlier, (tokens, positions, features) = chunks
        for missed, at, theirs in earlier:  # after a long time without a draft
            head.forward(missed, head.fuse(theirs), self._cache.enter(slice(0, batch.size), at, at, used=longest - 1))
        hidden = head.fuse(features)
        if self.tree is not None:
            return self._branch(self.tree, batch, tokens, hidden, positions, limits)
        drawn = self.drawn(batch, tokens, hidden, positions, longest)
        stop = None if self._stop_below is None else UnsureStop(self._stop_below, limits)
        return drafted(islice(drawn, max(limits)), limits, stop, head.token_ids)

    def drawn(self, batch: Batch, tokens: Tensor, hidden: Tensor, positions: Tensor, longest: int) -> Iterator[Drawn]:
        """A chain, token after token, without end. tokens, positions [B, w], hidden [B, w, h]: pairs, fused, the newest
        last · longest: no row has more tokens"""
        head = self.head
        for step in count():
            view = self._cache.enter(slice(0, batch.size), positions, positions, used=longest - 1 + step)
            logits, hidden = head.forward(tokens, hidden, view)
            tokens, q = choose(batch, logits, positions[:, -1:] + 2, head.config.layer.vocab_size, head.token_ids)
            positions = positions[:, -1:] + 1
            yield logits, tokens, q

    def _branch(
        self, tree: TreeShape, batch: Batch, tokens: Tensor, hidden: Tensor, positions: Tensor, limits: Sequence[int]
    ) -> Draft:
        """A draft that branches: after the pass over what was verified, one pass for all nodes of a depth.

        Its nodes stand behind the newest pair in the cache. Nothing of them is kept: the next draft enters anew what
        was verified.
        """
        head, rows, used = self.head, slice(0, batch.size), max(batch.lengths()) - 1
        growth = begin(tree, batch.size, batch.device)
        logits, hidden = head.forward(tokens, hidden, self._cache.enter(rows, positions, positions, used))
        root, places = positions[:, -1], positions[:, -1:]
        for depth in range(1, 1 + max(limits)):
            best = logits.float().log_softmax(2).topk(min(growth.breadth, logits.shape[2]))
            said = best.indices if head.token_ids is None else head.token_ids[best.indices]
            frontier = growth.grow(said, best.values)
            if depth == max(limits):
                break
            count, width = frontier.seen.shape[2], frontier.tokens.shape[1]
            slots = root[:, None] + torch.arange(1, 1 + count, device=batch.device)
            places = (places[:, :1] + 1).expand(-1, width)
            view = self._cache.enter(rows, slots[:, -width:], places, used + count, Branches(slots, frontier.seen))
            own = hidden.gather(1, frontier.parents[:, :, None].expand(-1, -1, hidden.shape[2]))
            logits, hidden = head.forward(frontier.tokens, own, view, last=width)
        self._cache.as_chain(rows, root, tree.width(max(limits)))
        return growth.draft(limits)

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        assert hidden is not None
        for row, kept in enumerate(accepted):
            if batch.sequences[row] is not None:
                self._waiting[row].append(hidden[row, : kept + 1])

    def release(self, row: int) -> None:
        self._waiting[row] = []

    def take(self, row: int) -> Tensor:
        """The features that wait for a row's next draft, which is then the caller's to make. [n, taps, hidden_size]"""
        waiting, self._waiting[row] = self._waiting[row], []
        return torch.cat(waiting)

    def _verified(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Of each row the pairs that wait, aligned on the right: tokens and positions [B, w], features [B, w, taps, h].

        A shorter row repeats its first pair, at its place: entering it again changes nothing.
        """
        waiting = [
            [self._nothing] if sequence is None else self._waiting[row] for row, sequence in enumerate(batch.sequences)
        ]
        counts = [sum(map(len, features)) for features in waiting]
        width = max(counts)
        newest, at = batch.newest_lists(width)
        for row, own in enumerate(counts):
            padding = width - own
            newest[row][:padding] = [newest[row][padding]] * padding
            at[row][:padding] = [at[row][padding]] * padding
            waiting[row] = [*[waiting[row][0][:1]] * padding, *waiting[row]]
            if batch.sequences[row] is not None:
                self._waiting[row] = []
        tokens, places = batch.on_device(newest), batch.on_device(at)
        # The pair of a token belongs to the position before it; a dead row's only token stays at 0.
        return tokens, (places - 1).clamp_min_(0), torch.stack([torch.cat(features) for features in waiting])
