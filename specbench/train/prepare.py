"""From a user's prompts to recorded answers, and which of them are kept for evaluation."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from specbench.decoder.drafters.none import NoDrafter
from specbench.decoder.engine import Engine
from specbench.decoder.load import eos_token_ids
from specbench.decoder.models.llama import Llama
from specbench.errors import SpecbenchError
from specbench.store.atomic import replacing
from specbench.train.chat import ChatFormat
from specbench.train.data import Shards, record_prompts
from specbench.train.eagle3 import recorded_taps
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
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Llama.from_directory(target, torch.float32, device)
    chat = ChatFormat.from_directory(target)
    prompts = [prompt for file in files for prompt in load_workload(file).prompts]
    if magpie:
        prompts += _magpie_prompts(model, chat, target, magpie, directory / "magpie.jsonl")
    excluded = {tuple(chat.encode(prompt)) for prompt in kept_out}
    prompts = [prompt for prompt in prompts if tuple(chat.encode(prompt)) not in excluded]
    shards = record_prompts(
        model, chat, prompts, directory,
        taps=recorded_taps(model.config.num_layers), eos=eos_token_ids(target), max_tokens=max_tokens,
    )  # fmt: skip
    held_out = tuple(i for i, id in enumerate(shards.ids) if is_held_out(id))
    trained = tuple(i for i, id in enumerate(shards.ids) if not is_held_out(id))
    if not trained or not held_out:
        raise SpecbenchError(
            f"{len(prompts)} prompts gave {len(shards)} usable answers, too few to train on some and judge by others. "
            "Give more --prompts, or let the target write some: --magpie 1000."
        )
    known = {shards.ids[i] for i in held_out}
    return Recording(shards, trained, held_out, tuple(p for p in prompts if p.id in known))


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
