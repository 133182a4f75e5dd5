"""What an engine accepts of a head's drafts, beside what training counts as accepted."""

from __future__ import annotations

from dataclasses import replace

import torch

from specbench.decoder.cache import KVCache
from specbench.decoder.engine import Engine
from specbench.decoder.models.llama import Llama
from specbench.decoder.models.prefill import prefill
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.train.batches import TrainingBatch
from specbench.train.data import Shards
from specbench.train.heads import recorded_taps
from specbench.train.lessons import HeadModule
from specbench.train.record import Record


def accepted_steps(engine: Engine, module: HeadModule, shards: Shards) -> list[tuple[int, int]]:
    """Of every step over the greedy answers among the records: tokens that the engine accepted, and that `module`
    counts as accepted."""
    found = []
    for index in range(len(shards)):
        record = shards[index]
        prompt = record.tokens[: record.prompt_length].tolist()
        engine.add(Request("r", prompt, SamplingParams(temperature=0.0, max_tokens=record.answer_length)))
        outputs = []
        while engine.has_work:
            outputs += engine.step()
        if [token for output in outputs for token in output.token_ids] != record.tokens[len(prompt) :].tolist():
            continue  # this answer was sampled
        batch = TrainingBatch.of([_unrounded(engine.target, record)], torch.device("cpu"))
        with torch.no_grad():
            # hits[j][i]: chain i's draft j is the recorded token; chain 0 drafts the second token of the answer
            hits = [step.hits.tolist() for step in module(batch, engine.gamma)]
        emitted = 1
        for output in outputs[1:]:
            counted = 0
            while counted < output.drafted and hits[counted][emitted - 1]:
                counted += 1
            found.append((output.accepted, counted))
            emitted += len(output.token_ids)
    return found


def _unrounded(model: Llama, record: Record) -> Record:
    """With float32 features: the stored ones are rounded to bfloat16, and then near ties are decided otherwise."""
    cache = KVCache(model.config, 1, 256, model.dtype, model.device)
    hidden = prefill(model, cache, 0, record.tokens[:-1].tolist(), logits=0, taps=recorded_taps(8)).hidden
    assert hidden is not None
    return replace(record, hidden=hidden[0])
