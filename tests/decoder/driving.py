"""An engine driven from the first request to the last token."""

from __future__ import annotations

from collections.abc import Iterable

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
