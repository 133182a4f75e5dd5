"""An engine driven from the first request to the last token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from specbench.decoder.batch import Batch
from specbench.decoder.cache import KVCache
from specbench.decoder.drafters.base import Draft
from specbench.decoder.engine import Engine
from specbench.decoder.models.prefill import prefill
from specbench.decoder.request import Request, StepOutput


def run(engine: Engine, requests: Iterable[Request]) -> dict[str, list[StepOutput]]:
    """All requests at once (more than the engine's rows wait), to their end."""
    outputs: dict[str, list[StepOutput]] = {}
    for request in requests:
        engine.add(request)
        outputs[request.id] = []
    while engine.has_work:
        for output in engine.step():
            outputs[output.request_id].append(output)
    return outputs


def tokens(outputs: dict[str, list[StepOutput]]) -> dict[str, list[int]]:
    return {id: [token for step in steps for token in step.token_ids] for id, steps in outputs.items()}


def assert_cache_is_a_fresh_prefill(engine: Engine) -> None:
    """Every live row holds, below its newest token, what running its tokens from scratch would leave there."""
    for row, sequence in enumerate(engine._rows):
        if sequence is None:
            continue
        length = len(sequence.tokens) - 1
        fresh = KVCache(engine.target.config, 1, engine.cache.slots, torch.float32, torch.device("cpu"))
        with torch.inference_mode():
            prefill(engine.target, fresh, 0, sequence.tokens[:length], logits=0)
        assert engine.cache.positions[row, :length].tolist() == list(range(length))
        torch.testing.assert_close(
            engine.cache.entries[:, row, :length], fresh.entries[:, 0, :length], atol=1e-4, rtol=1e-4
        )


class Watched:
    """A drafter, and what was proposed for whom."""

    def __init__(self, engine: Engine) -> None:
        self._drafter = engine.drafter
        self.drafts: list[tuple[tuple[list[int] | None, ...], Draft]] = []
        engine.drafter = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        draft = self._drafter.propose(batch, limits)
        self.drafts.append((tuple(None if s is None else list(s.tokens) for s in batch.sequences), draft))
        return draft
