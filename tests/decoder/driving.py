"""An engine driven from the first request to the last token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from specbench.decoder.batch import Batch
from specbench.decoder.drafters.base import Draft
from specbench.decoder.engine import Engine
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
