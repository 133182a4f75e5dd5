"""Tiny random models and heads (the fixtures of the decoder's own tests), and runs of the engine to compare with.

Makes `known_run`, the builder of measurements of known truth, importable.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from specbench.decoder.engine import Engine
from specbench.decoder.request import Request, StepOutput
from specbench.decoder.sampling import SamplingParams
from specbench.profile.offsets import Transcript

sys.path.append(str(Path(__file__).parents[1] / "analysis"))


def _fixtures(name: str, *path: str) -> ModuleType:
    spec = spec_from_file_location(name, Path(__file__).parents[1].joinpath(*path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_models = _fixtures("tiny_models", "decoder", "conftest.py")
_heads = _fixtures("random_heads", "decoder", "drafters", "conftest.py")

one_thread, save_llama, target = _models.one_thread, _models.save_llama, _models.target
pruned, reduced = _models.pruned, _models.reduced
deep_target, save_head = _heads.deep_target, _heads.save_head

Outputs = dict[str, list[StepOutput]]


@pytest.fixture(scope="session")
def run() -> Callable[..., Outputs]:
    """Decode prompts greedily to their end, all at once: what every step gave each of them, by the prompt's number."""

    def decode(engine: Engine, prompts: Sequence[Sequence[int]], **params: Any) -> Outputs:
        outputs: Outputs = {}
        for number, prompt in enumerate(prompts):
            engine.add(Request(str(number), prompt, SamplingParams(temperature=0.0, **params)))
            outputs[str(number)] = []
        while engine.has_work:
            for output in engine.step():
                outputs[output.request_id].append(output)
        return outputs

    return decode


@pytest.fixture(scope="session")
def transcripts(run: Callable[..., Outputs]) -> Callable[..., list[Transcript]]:
    """What plain greedy decoding answers."""

    def decode(engine: Engine, prompts: Sequence[Sequence[int]], **params: Any) -> list[Transcript]:
        return [
            Transcript(
                id=id,
                prompt=prompts[int(id)],
                response=[token for step in steps for token in step.token_ids],
                max_tokens=min(params["max_tokens"], engine.max_model_len - len(prompts[int(id)])),
            )
            for id, steps in run(engine, prompts, **params).items()
        ]

    return decode
