"""Answers of the target itself, with the hidden states that a head learns from, recorded while they are decoded."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.drafters.base import Draft
from specbench.decoder.engine import Engine
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import Request, SequenceState
from specbench.decoder.sampling import SamplingParams

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Record:
    """One prompt and the target's answer.

    tokens: [n] int64, prompt then answer · prompt_length: tokens of the prompt
    hidden: [n - 1, taps, hidden_size] bfloat16: of every token but the last, which no forward pass saw
    """

    id: str
    tokens: Tensor
    prompt_length: int
    hidden: Tensor

    @property
    def answer_length(self) -> int:
        return len(self.tokens) - self.prompt_length


@dataclass(slots=True)
class _Row:
    sequence: SequenceState
    prompt_length: int
    hidden: list[Tensor]


class Recorder:
    """A drafter that proposes nothing and keeps what the target's layers said of each token."""

    name = "recorder"
    kv_bytes_per_token = 0
    weights_bytes = 0

    def __init__(self, taps: Sequence[int]) -> None:
        self.needs_hidden = tuple(taps)
        self._rows: dict[int, _Row] = {}
        self._done: list[Record] = []

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        assert hidden is not None
        self._rows[row] = _Row(sequence, len(sequence.tokens), [_kept(hidden)[0]])

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        return Draft.none(batch)

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        assert hidden is not None
        seen = _kept(hidden)
        for index, row in self._rows.items():
            row.hidden.append(seen[index])

    def release(self, row: int) -> None:
        done = self._rows.pop(row)
        hidden = torch.cat(done.hidden)
        tokens = torch.tensor(done.sequence.tokens, dtype=torch.int64)
        self._done.append(Record(done.sequence.request.id, tokens, done.prompt_length, hidden))

    def collect(self) -> list[Record]:
        """The records finished since the last call."""
        done, self._done = self._done, []
        return done


def _kept(hidden: Tensor) -> Tensor:
    # Half the bytes, and the range of float32: residual streams have outliers that float16 has no place for.
    return hidden.to("cpu", torch.bfloat16)


def record_answers(
    target: Llama, requests: Sequence[Request], taps: Sequence[int], rows: int, max_model_len: int, eos: Sequence[int]
) -> Iterator[Record]:
    """Decode every request, `rows` of them at a time, and yield each record when it is done."""
    recorder = Recorder(taps)
    engine = Engine(target, recorder, 0, rows, max_model_len, eos_token_ids=eos)
    for request in requests:
        engine.add(request)
    while engine.has_work:
        engine.step()
        yield from recorder.collect()


def answer_params(seed: int, max_tokens: int) -> SamplingParams:
    """Half of the answers greedy, half sampled: a head is asked for both."""
    return SamplingParams(temperature=0.0 if seed % 2 == 0 else 0.8, seed=seed, max_tokens=max_tokens)
