"""Prompts from nothing: a chat model that is shown the opening of a user's turn writes the turn itself.

Xu et al., 2024, "Magpie: Alignment Data Synthesis from Scratch by Prompting Aligned LLMs with Nothing".
"""

from __future__ import annotations

from collections.abc import Iterator

from specbench.decoder.engine import Engine
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.train.chat import ChatFormat
from specbench.workloads.prompt import Prompt

MAX_TOKENS = 128
SHORTEST = 12
"""Characters; what is shorter ("Hi", "?") says nothing of how people ask."""


def sample_prompts(engine: Engine, chat: ChatFormat, count: int) -> Iterator[Prompt]:
    """User turns that `engine`'s target wrote at temperature 1, in the order in which they were done.

    Of `count` sampled turns those that ended by themselves, say something, and were not there before.
    """
    opening, seen = chat.open_turn(), set[str]()
    for seed in range(count):
        params = SamplingParams(temperature=1.0, seed=seed, max_tokens=MAX_TOKENS)
        engine.add(Request(f"magpie-{seed}", opening, params))
    tokens: dict[str, list[int]] = {}
    while engine.has_work:
        for output in engine.step():
            tokens.setdefault(output.request_id, []).extend(output.token_ids)
            if output.finish_reason == "stop":
                text = chat.decode(tokens.pop(output.request_id)).strip()
                if len(text) >= SHORTEST and text not in seen:
                    seen.add(text)
                    yield Prompt(output.request_id, ({"role": "user", "content": text},), category="magpie")
