"""Requests that draw at fixed contexts, and the draws that come back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specbench.equivalence.sampling.observations import Draw, Tokens
from specbench.replay.records import RequestTrace
from specbench.replay.request import RequestSpec
from specbench.sweep.config import SweepConfig

SEEDS_APART = 1 << 24
"""Seeds of one set of draws; sets must not share any, or engines whose seeds fix tokens would repeat themselves."""


def requests_at(
    contexts: Sequence[Tokens], draws: int, max_tokens: int, config: SweepConfig, set_number: int
) -> list[RequestSpec]:
    """`draws` requests at each context, contexts in turn, every one with a seed of its own."""
    return [
        RequestSpec(
            index=context,
            prompt_id=f"context-{context}",
            prompt=contexts[context],
            max_tokens=max_tokens,
            temperature=config.temperature,
            top_p=config.top_p,
            top_k=config.top_k,
            seed=config.seed + set_number * SEEDS_APART + draw * len(contexts) + context,
        )
        for draw in range(draws)
        for context in range(len(contexts))
    ]


def draws_of(traces: Iterable[RequestTrace], first_context: int = 0) -> list[Draw]:
    """What came back; failed requests are left out. first_context: number of the first of these contexts"""
    return [
        Draw(first_context + trace.index, trace.token_ids, _steps(trace))
        for trace in traces
        if trace.error is None and trace.token_ids is not None
    ]


def _steps(trace: RequestTrace) -> tuple[tuple[int, int], ...] | None:
    told = trace.acceptance
    if told is None or told.per_step_drafted is None or told.per_step_accepted is None:
        return None
    return tuple(zip(told.per_step_drafted, told.per_step_accepted, strict=True))
