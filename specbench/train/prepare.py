"""From a user's prompts to recorded answers, and which of them are kept for evaluation."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from specbench.decoder.drafters.none import NoDrafter
from specbench.decoder.engine import Engine
from specbench.decoder.load import eos_token_ids
from specbench.decoder.models.llama import Llama
from specbench.digest import directory_digest
from specbench.errors import SpecbenchError
from specbench.store.atomic import replacing
from specbench.store.run import write_json
from specbench.train.chat import ChatFormat
from specbench.train.data import Shards, record_prompts
from specbench.train.device import train_device
from specbench.train.heads import recorded_taps
from specbench.train.magpie import MAX_TOKENS, sample_prompts
from specbench.workloads import load_workload
from specbench.workloads.prompt import Prompt

logger = logging.getLogger(__name__)

HELD_OUT_PARTS = 16
"""One prompt of so many is recorded, but never trained on."""

MAGPIE_ROWS = 64


@dataclass(frozen=True, slots=True)
class Recording:
    """trained, held_out: indexes into `shards` · held_out_prompts: those of the held-out records"""

    shards: Shards
    trained: tuple[int, ...]
    held_out: tuple[int, ...]
    held_out_prompts: tuple[Prompt, ...]


def prepare(
    target: Path, files: Sequence[Path], magpie: int, kept_out: Iterable[Prompt], directory: Path, max_tokens: int
) -> Recording:
    """Record the target's answers to the prompts of `files` and to `magpie` sampled ones; goes on where it was killed.

    kept_out: prompts for evaluation; those of the same words are not trained on, whatever file they stand in
    Raises SpecbenchError where nothing is left to train on.
    """
    _check_same_recording(directory, target, max_tokens)
    model = Llama.from_directory(target, torch.float32, train_device())
    chat = ChatFormat.from_directory(target)
    prompts = [prompt for file in files for prompt in load_workload(file).prompts]
    if magpie:
        prompts += _magpie_prompts(model, chat, target, magpie, magpie_file(directory, magpie))
    if twice := [id for id, times in Counter(p.id for p in prompts).items() if times > 1]:
        raise SpecbenchError(f"two prompts are called {twice[0]!r}. Give each its own id, in all files together.")
    excluded = {tuple(chat.encode(prompt)) for prompt in kept_out}
    wanted = {p.id: p for p in prompts if tuple(chat.encode(p)) not in excluded}
    shards = record_prompts(
        model, chat, wanted.values(), directory,
        taps=recorded_taps(model.config.num_layers), eos=eos_token_ids(target), max_tokens=max_tokens,
    )  # fmt: skip
    # The directory may hold more: of an earlier call, or to other words under the same id.
    usable = [
        i for i, id in enumerate(shards.ids) if id in wanted and shards.prompt_ids(i) == list(chat.encode(wanted[id]))
    ]
    held_out = tuple(i for i in usable if is_held_out(shards.ids[i]))
    trained = tuple(i for i in usable if not is_held_out(shards.ids[i]))
    if not trained or not held_out:
        raise SpecbenchError(
            f"{len(prompts)} prompts gave {len(usable)} usable answers, too few to train on some and judge by others. "
            "Give more --prompts, or let the target write some: --magpie 1000."
        )
    return Recording(shards, trained, held_out, tuple(wanted[shards.ids[i]] for i in held_out))


def magpie_file(directory: Path, count: int) -> Path:
    """Where the prompts are that the target wrote, of so many turns."""
    return directory / f"magpie-{count}.jsonl"


def _check_same_recording(directory: Path, target: Path, max_tokens: int) -> None:
    """Answers are those of one target and one length. Raises SpecbenchError where `directory` holds others."""
    path = directory / "recording.json"
    identity = {"target": directory_digest(target), "max_tokens": max_tokens}
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        write_json(path, identity)
    elif json.loads(path.read_text("utf-8")) != identity:
        raise SpecbenchError(
            f"{directory} holds answers of another target, or of another --max-tokens. Give another --output."
        )


def is_held_out(id: str) -> bool:
    """By the prompt's id alone, so that more prompts never move one from evaluation into training."""
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:4], "big") % HELD_OUT_PARTS == 0


def _magpie_prompts(model: Llama, chat: ChatFormat, target: Path, count: int, file: Path) -> list[Prompt]:
    if not file.exists():
        logger.info("letting the target write %d prompts", count)
        length = len(chat.open_turn()) + MAX_TOKENS
        engine = Engine(model, NoDrafter(), 0, MAGPIE_ROWS, length, eos_token_ids=eos_token_ids(target))
        lines = [
            json.dumps({"id": p.id, "category": p.category, "messages": p.messages}, ensure_ascii=False)
            for p in sample_prompts(engine, chat, count)
        ]
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as partial:
            partial.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return list(load_workload(file).prompts)
