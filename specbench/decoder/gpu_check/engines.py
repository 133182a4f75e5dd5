"""Engines over random models, and batches of requests driven through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from specbench.decoder.drafters.base import Drafter
from specbench.decoder.drafters.draft_model import DraftModel
from specbench.decoder.drafters.ngram import NgramDrafter
from specbench.decoder.drafters.none import NoDrafter
from specbench.decoder.engine import Engine, cache_slots
from specbench.decoder.lagged import LaggedEngine
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import Request, StepOutput
from specbench.decoder.sampling import SamplingParams
from specbench.decoder.synthetic import SyntheticAcceptance


def make_engine(
    target: Llama,
    drafter: Llama | str = "none",
    *,
    gamma: int = 0,
    rows: int,
    length: int,
    acceptance: float | None = None,
    lagged: bool = False,
    **settings: Any,
) -> Engine:
    """drafter: a draft model, `ngram` or `none` · length: prompt and output · acceptance: made up at this rate ·
    lagged: steps on the device as a whole, read one step behind
    """
    method: Drafter
    if isinstance(drafter, Llama):
        method = DraftModel(drafter, rows, cache_slots(length, gamma))
    else:
        method = NgramDrafter() if drafter == "ngram" else NoDrafter()
    made_up = None if acceptance is None else SyntheticAcceptance((acceptance,), gamma, target.device)
    engine = LaggedEngine if lagged else Engine
    return engine(target, method, gamma, rows, length, acceptance=made_up, **settings)


def prompts(count: int, length: int, vocab: int, seed: int = 0) -> list[list[int]]:
    """Random tokens, but for the second half, which repeats the first: so that lookups find something."""
    generator = torch.Generator().manual_seed(seed)
    half = torch.randint(vocab, (count, (length + 1) // 2), generator=generator)
    rows: list[list[int]] = torch.cat([half, half], 1)[:, :length].tolist()
    return rows


def run(engine: Engine, texts: Sequence[Sequence[int]], params: SamplingParams) -> list[list[StepOutput]]:
    """All requests to their end; request i has the seed i. What each step gave, by request."""
    fields = {name: getattr(params, name) for name in SamplingParams.__dataclass_fields__}
    outputs: list[list[StepOutput]] = [[] for _ in texts]
    for i, text in enumerate(texts):
        engine.add(Request(str(i), text, SamplingParams(**{**fields, "seed": i})))
    while engine.has_work:
        for output in engine.step():
            outputs[int(output.request_id)].append(output)
    return outputs


def tokens(outputs: Sequence[StepOutput]) -> list[int]:
    return [token for output in outputs for token in output.token_ids]
