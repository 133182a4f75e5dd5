"""Prompts that ask for a summary, made of articles that the target itself wrote in an earlier recording."""

from __future__ import annotations

import random
from collections.abc import Iterator

from specbench.train.chat import ChatFormat
from specbench.train.data import Shards

ASKS = (
    "Summarize the following text in three sentences:\n\n{text}",
    "{text}\n\nSummarize this in five bullet points.",
    "What are the main points of this text?\n\n{text}",
    "Write a short abstract of the text below.\n\n{text}",
    "Give me the gist of this in one paragraph, for a newsletter.\n\n{text}",
    "TL;DR of this, please:\n\n{text}",
)
SHORTEST = 150
"""Tokens of an answer that is worth a summary."""


def summary_prompts(shards: Shards, chat: ChatFormat, seed: int = 0) -> Iterator[dict[str, object]]:
    """Workload lines, one per long enough answer, articles first."""
    rng = random.Random(seed)
    indexes = sorted(range(len(shards)), key=lambda i: (not shards.ids[i].startswith("article"), shards.ids[i]))
    for index in indexes:
        record = shards[index]
        if record.answer_length < SHORTEST:
            continue
        text = chat.decode(record.tokens[record.prompt_length :].tolist()).strip()
        content = rng.choice(ASKS).format(text=text)
        yield {
            "id": f"summary-{shards.ids[index]}",
            "category": "summary",
            "messages": [{"role": "user", "content": content}],
        }
