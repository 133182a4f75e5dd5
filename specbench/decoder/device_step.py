"""A whole speculative step on the device: drafting, verification, acceptance, and what the next step begins with.

Nothing in it waits for the device or brings a number from the host, and no shape depends on what a tensor holds. So it
can be captured as CUDA graphs, and the next step launched before anybody has read what this one came to.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import torch
from torch import Tensor
from torch.nn.functional import pad

from specbench.decoder.batch import DEAD, Batch
from specbench.decoder.cache import KVCache
from specbench.decoder.counters import Phase
from specbench.decoder.drafters.base import Draft
from specbench.decoder.drafters.chain import drafted
from specbench.decoder.drafters.on_device import OnDevice
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import SequenceState
from specbench.decoder.sampling import Warp
from specbench.decoder.verifier import Verifier

Parts = dict[Phase, Callable[[], None]]
"""Of a step, in order: what does the work of each, or has it done by the device."""


class Rows:
    """What a step begins with, for every row of an engine: each step leaves here what the next one begins with.

    tokens, positions: [rows, width] int64, the newest tokens that a drafter may not have entered yet, the newest last,
                       and their places in the text; a row with fewer repeats the first of them
    room:              [rows] int64, tokens that may still be emitted. A row without room stays as it is
    seeds [rows] int64, and of `Warp` temperature, top_p [rows] float32, top_k [rows] int64
    """

    def __init__(self, rows: int, width: int, device: torch.device) -> None:
        self.tokens, self.positions = (torch.zeros(rows, width, dtype=torch.int64, device=device) for _ in range(2))
        self.room, self.seeds = (torch.zeros(rows, dtype=torch.int64, device=device) for _ in range(2))
        dead = Warp.stack([DEAD] * rows, device)
        self.temperature, self.top_k, self.top_p = dead.temperature, dead.top_k, dead.top_p

    def enter(self, row: int, sequence: SequenceState) -> None:
        """A sequence whose prompt has been prefilled, and whose first token is known."""
        params = sequence.request.params
        self.tokens[row], self.positions[row] = sequence.tokens[-1], len(sequence.tokens) - 1
        self.room[row], self.seeds[row] = sequence.room, params.seed
        own = Warp.stack([params], self.seeds.device)
        self.temperature[row], self.top_k[row], self.top_p[row] = own.temperature[0], own.top_k[0], own.top_p[0]

    def leave(self, row: int) -> None:
        """The row is dead: computed along, at the first slots of its cache."""
        for state in (self.tokens, self.positions, self.room, self.temperature):
            state[row].zero_()  # a number of the host's, assigned, would make it wait for the device

    def batch(self, size: int, like: Warp, draft_stream: int) -> Batch:
        """The first `size` rows, for drafters and verifiers: without sequences, which are the host's.

        like: what the host must know of the rows' warping, which is the same for all batches that this one serves
        """
        warp = Warp(
            self.temperature[:size],
            self.top_k[:size],
            self.top_p[:size],
            greedy_rows=size if like.all_greedy else size - 1,  # some; of one row none
            max_top_k=like.max_top_k,
            any_top_p=like.any_top_p,
        )
        return Batch((None,) * size, warp, self.seeds[:size], draft_stream)


class DeviceStep:
    """A step of the first rows, in parts that are done one after the other (`parts`).

    drafter: at least one token is drafted where gamma is not 0 · batch: of `rows` · longest: no row has more tokens
    results: [B, 3 + γ] int64 of the last step: tokens drafted, tokens accepted, the next token; the draft, -1 = none
    logits:  [B, γ+1, V] of the last step, the target's
    """

    results: Tensor
    logits: Tensor
    _hidden: Tensor | None

    def __init__(
        self,
        target: Llama,
        cache: KVCache,
        drafter: OnDevice,
        verifier: Verifier,
        rows: Rows,
        gamma: int,
        batch: Batch,
        longest: int,
    ) -> None:
        self._target, self._cache, self._drafter, self._verifier = target, cache, drafter, verifier
        self._batch, self._gamma, self._longest = batch, gamma, longest
        self._tokens, self._positions = rows.tokens[: batch.size], rows.positions[: batch.size]
        self._room = rows.room[: batch.size]
        self.settle()

    @property
    def parts(self) -> Parts:
        """Made when asked for: kept here, they would keep the step, and with it caches and models, in a cycle."""
        drafting: Parts = {"draft": self._propose} if self._gamma else {}
        return {**drafting, "verify": self._verify, "accept": self._accept}

    def settle(self) -> None:
        """Let go of what the parts hand on to each other: once they are captured, that is their graphs' own."""
        self._draft, self._hidden = Draft.none(self._batch), None

    def _propose(self) -> None:
        drawn = self._drafter.drawn(self._batch, self._tokens, self._positions, self._longest)
        # A step emits one token more than it accepts, hence the 1.
        self._draft = drafted(islice(drawn, self._gamma), self._room - 1)

    def _verify(self) -> None:
        tokens = torch.cat([self._tokens[:, -1:], self._draft.tokens.clamp_min(0)], 1)
        slots = self._positions[:, -1:] + torch.arange(self._gamma + 1, device=tokens.device)
        view = self._cache.enter(slice(0, self._batch.size), slots, slots, self._longest + self._gamma)
        forward = self._target.forward(tokens, view, logits=self._gamma + 1, taps=self._drafter.taps)
        self.logits, self._hidden = forward.logits, forward.hidden

    def _accept(self) -> None:
        draft, newest = self._draft, self._positions[:, -1:]
        verified = self._verifier.verify_at(self._batch, self.logits, draft, newest[:, 0] + 1)
        accepted, following = verified.accepted[:, None], verified.next_token[:, None]
        self.results = torch.cat([draft.lengths()[:, None], accepted, following, draft.tokens], 1)

        # What the next step begins with: of the verified tokens, behind the newest, the last ones.
        emitted = pad(draft.tokens, (0, 1)).scatter(1, accepted, following)
        at = (accepted + torch.arange(1 - self._drafter.width, 1, device=newest.device)).clamp_min(0)
        live = self._room > 0
        self._drafter.keep(live, at, self._hidden)
        self._tokens.copy_(emitted.gather(1, at).where(live[:, None], self._tokens))
        self._positions.copy_((newest + 1 + at).where(live[:, None], self._positions))
        self._room.sub_((accepted[:, 0] + 1).where(live, 0))
