"""Transcripts that are made here: the prompts of a workload, answered by plain greedy decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from specbench.decoder.cache import KVCache
from specbench.decoder.config import ModelConfig
from specbench.decoder.drafters import load_drafter
from specbench.decoder.drafters.base import DrafterContext
from specbench.decoder.drafters.draft_model import DraftModel
from specbench.decoder.drafters.eagle3 import Eagle3Drafter
from specbench.decoder.drafters.universal import UniversalDraftModel
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.errors import SpecbenchError
from specbench.profile.base import Profiler
from specbench.profile.lookups import LOOKUPS
from specbench.profile.offsets import Transcript
from specbench.profile.step_cost import Cost
from specbench.profile.teacher_forced import DraftModelProfiler, Eagle3Profiler
from specbench.workloads.prompt import Prompt

METHODS = (*LOOKUPS, "draft_model", "eagle3")

LONGEST = 4096
"""Tokens of prompt and answer together, where the model allows as many."""


def load_target(target: Path, device: str, dtype: str, rows: int, threads: int | None) -> Engine:
    """The target as a plain decoder. Raises SpecbenchError for a model that cannot be run."""
    try:
        longest = min(LONGEST, ModelConfig.from_directory(target).max_length)
        return load_engine(
            target, dtype=dtype, device=device, max_batch_size=rows, max_model_len=longest, threads=threads
        )
    except ValueError as error:
        raise SpecbenchError(str(error)) from error


def answer(
    engine: Engine,
    prompts: Sequence[Prompt],
    encode: Callable[[Prompt], Sequence[Any]],
    max_tokens: int,
) -> Iterator[Transcript]:
    """Every prompt's transcript, in the order of the prompts; those that are too long for the engine are left out.

    max_tokens: of prompts without a limit of their own
    """
    asked: dict[str, tuple[Prompt, list[int], int]] = {}
    for prompt in prompts:
        ids, limit = list(encode(prompt)), prompt.max_tokens or max_tokens
        if ids and len(ids) + limit <= engine.max_model_len:
            engine.add(Request(prompt.id, ids, SamplingParams(temperature=0.0, max_tokens=limit)))
            asked[prompt.id] = prompt, ids, limit
    answers: dict[str, list[int]] = {id: [] for id in asked}
    finished: set[str] = set()
    for id, (prompt, ids, limit) in asked.items():
        while id not in finished:
            for output in engine.step():
                answers[output.request_id] += output.token_ids
                if output.finish_reason is not None:
                    finished.add(output.request_id)
        yield Transcript(id, ids, answers.pop(id), limit, prompt.category)


def load_profiler(method: str, engine: Engine, target: Path, drafter: Path) -> tuple[Profiler, Cost]:
    """The profiler of a method with weights, and what its drafted tokens cost by the bytes that both models read.

    Raises SpecbenchError for weights that do not fit the target.
    """
    try:
        # For the weights' sake: nothing is drafted, and a cache of one place is enough.
        cache = KVCache(engine.target.config, 1, 1, engine.target.dtype, engine.target.device)
        context = DrafterContext(engine.target, target, drafter, cache, gamma=1)
        loaded = load_drafter(method, context)
    except ValueError as error:
        raise SpecbenchError(str(error)) from error
    cost = Cost(loaded.weights_bytes / engine.target.weights_bytes, "estimated from the bytes of weights")
    match loaded:
        case DraftModel():
            return DraftModelProfiler(loaded.model), cost
        case Eagle3Drafter():
            return Eagle3Profiler(loaded.head, engine.target), cost
        case UniversalDraftModel():
            raise SpecbenchError(
                f"{drafter} has another vocabulary than the target, so what it would have drafted at each position is "
                "not known without decoding. Profile a draft model of the target's family, or run a sweep."
            )
    raise SpecbenchError(f"method {method} cannot be profiled. Choose from: {', '.join(METHODS)}.")
