"""Training data on disk: recorded answers in shards that appear whole, so that a killed run goes on where it was."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from specbench.analysis.degenerate import ends_in_loop
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import Request
from specbench.store.atomic import replacing
from specbench.train.chat import ChatFormat
from specbench.train.record import Record, answer_params, record_answers
from specbench.workloads.prompt import Prompt

logger = logging.getLogger(__name__)

SHARD_RECORDS = 64
SHORTEST_ANSWER = 8


class Shards:
    """The records of one directory, in files of `SHARD_RECORDS`; only their lengths are kept in memory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._files: list[Any] = []
        # (file, first token, tokens, prompt tokens) of each record; hidden states are one fewer per record before it
        self._places: list[tuple[int, int, int, int, int]] = []
        self.ids: list[str] = []
        for path in sorted(directory.glob("shard-*.safetensors")):
            self._open(path)

    def _open(self, path: Path) -> None:
        file: Any = safe_open(path, framework="pt")
        lengths, prompts = file.get_tensor("lengths").tolist(), file.get_tensor("prompt_lengths").tolist()
        first = 0
        for index, (length, prompt) in enumerate(zip(lengths, prompts, strict=True)):
            self._places.append((len(self._files), first, first - index, length, prompt))
            first += length
        self.ids += json.loads(file.metadata()["ids"])
        self._files.append(file)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Record:
        file, first, first_hidden, length, prompt = self._places[index]
        opened = self._files[file]
        return Record(
            id=self.ids[index],
            tokens=opened.get_slice("tokens")[first : first + length].long(),
            prompt_length=prompt,
            hidden=opened.get_slice("hidden")[first_hidden : first_hidden + length - 1],
        )

    def prompt_ids(self, index: int) -> list[int]:
        """What was asked, without reading the record's hidden states."""
        file, first, _, _, prompt = self._places[index]
        ids: list[int] = self._files[file].get_slice("tokens")[first : first + prompt].tolist()
        return ids

    def lengths(self) -> list[int]:
        return [length for *_, length, _ in self._places]

    def answer_tokens(self) -> int:
        return sum(length - prompt for *_, length, prompt in self._places)

    def append(self, records: Sequence[Record]) -> None:
        """Write one more shard."""
        path = self.directory / f"shard-{len(self._files):05d}.safetensors"
        tensors = {
            "tokens": torch.cat([r.tokens for r in records]).to(torch.int32),
            "hidden": torch.cat([r.hidden for r in records]),
            "lengths": torch.tensor([len(r.tokens) for r in records], dtype=torch.int32),
            "prompt_lengths": torch.tensor([r.prompt_length for r in records], dtype=torch.int32),
        }
        with replacing(path) as partial:
            save_file(tensors, partial, metadata={"ids": json.dumps([r.id for r in records])})
        self._open(path)


def record_prompts(
    target: Llama,
    chat: ChatFormat,
    prompts: Iterable[Prompt],
    directory: Path,
    *,
    taps: Sequence[int],
    eos: Sequence[int],
    max_tokens: int = 160,
    max_prompt_tokens: int = 640,
    rows: int = 48,
) -> Shards:
    """Let the target answer every prompt that `directory` has no record of yet.

    Answers that end in a loop, or are hardly there, teach nothing and are left out; so are prompts that are too long.
    """
    directory.mkdir(parents=True, exist_ok=True)
    shards = Shards(directory)
    asked = directory / "asked.txt"
    known = set(asked.read_text().split("\n")) if asked.exists() else set[str]()
    requests = [
        Request(prompt.id, ids, answer_params(seed, prompt.max_tokens or max_tokens))
        for seed, prompt in enumerate(prompts)
        if prompt.id not in known and len(ids := chat.encode(prompt)) <= max_prompt_tokens
    ]
    longest = max((len(r.prompt_ids) + r.params.max_tokens for r in requests), default=1)
    answers = record_answers(target, _of_like_length(requests, rows), taps, rows, longest, eos)
    for done in _groups(answers, SHARD_RECORDS):
        kept = [r for r in done if r.answer_length >= SHORTEST_ANSWER and not ends_in_loop(r.tokens.tolist())]
        if kept:
            shards.append(kept)
        # After the shard: a record that a kill lost is decoded again.
        with asked.open("a") as file:
            file.writelines(f"{r.id}\n" for r in done)
        logger.info(
            "recorded %d answers, %d tokens of them the target's own; %d left out",
            len(shards), shards.answer_tokens(), len(done) - len(kept),
        )  # fmt: skip
    return shards


def _of_like_length(requests: Sequence[Request], rows: int) -> list[Request]:
    """Neighbours of like length, since attention reads as far as the longest row; else in random order."""
    by_length = sorted(requests, key=lambda r: len(r.prompt_ids))
    groups = [by_length[start : start + rows] for start in range(0, len(by_length), rows)]
    order = torch.randperm(len(groups), generator=torch.Generator().manual_seed(0)).tolist()
    return [request for group in order for request in groups[group]]


def _groups(records: Iterator[Record], size: int) -> Iterator[list[Record]]:
    group: list[Record] = []
    for record in records:
        group.append(record)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group
