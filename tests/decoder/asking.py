"""The requests that engines over the tiny target are tested with."""

from __future__ import annotations

import itertools
from typing import Any

from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams

MAX_TOKENS = 25
TEXTS = (
    "abcabcabc",
    "The quick brown fox",
    "x",
    "010101",
    "hello, hello, hel",
    "{}",
    "aaaa",
    "To be or not to be, to b",
)
PROMPTS = [list(text.encode()) for text in TEXTS]
SAMPLED = SamplingParams(temperature=0.8, max_tokens=MAX_TOKENS, ignore_eos=True)
GREEDY = SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS, ignore_eos=True)


def requests(*params: SamplingParams) -> list[Request]:
    """One request per prompt, each with its own seed."""
    return [
        Request(str(i), prompt, SamplingParams(**{**fields(p), "seed": 100 + i}))
        for i, (prompt, p) in enumerate(zip(PROMPTS, itertools.cycle(params)))
    ]


def fields(params: SamplingParams) -> dict[str, Any]:
    return {name: getattr(params, name) for name in SamplingParams.__dataclass_fields__}
