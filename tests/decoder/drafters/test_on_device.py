"""EAGLE-1, EAGLE-3 and MTP heads draft on the device as they do step by step from the host."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from asking import GREEDY, SAMPLED, requests
from driving import run
from heads import eagle_tensors, mtp_tensors, save, speculators
from tape import capture
from transformers import LlamaForCausalLM

from specbench.decoder.drafters.none import NoDrafter
from specbench.decoder.drafters.on_device import on_device
from specbench.decoder.engine import Engine
from specbench.decoder.lagged import LaggedEngine
from specbench.decoder.load import load_engine
from specbench.decoder.tree_shape import parse_tree

SAID = (32, 97, 98, 101, 116, 120)


@pytest.fixture(scope="module")
def terse(deep_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target that says few tokens: a random head is right now and then."""
    directory = tmp_path_factory.mktemp("terse")
    model = LlamaForCausalLM.from_pretrained(deep_target)
    model.lm_head.weight.data[torch.ones(258, dtype=torch.bool).index_fill_(0, torch.tensor(SAID), False)] = 0
    model.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def make(
    terse: Path, save_head: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Engine]:
    shape = json.loads((terse / "config.json").read_text())
    folder = tmp_path_factory.mktemp("heads")
    heads = {
        "eagle": save(folder / "eagle", eagle_tensors(shape), shape, "eagle"),
        "mtp": save(folder / "mtp", speculators(mtp_tensors(shape)), shape, "mtp"),
        "eagle3": save_head(SAID),
    }

    def engine(method: str, gamma: int, **settings: Any) -> Engine:
        return load_engine(
            terse, method=method, gamma=gamma, drafter=heads[method], **{"max_model_len": 64, **settings}
        )

    return engine


@pytest.mark.parametrize("params", [(GREEDY,), (SAMPLED,), (replace(SAMPLED, top_k=2), GREEDY)])
@pytest.mark.parametrize(("batch_size", "gamma"), [(1, 1), (1, 5), (3, 3), (8, 1), (8, 3)])
@pytest.mark.parametrize("method", ["eagle", "eagle3", "mtp"])
def test_steps_are_those_that_the_host_leads(
    make: Callable[..., Engine], method: str, batch_size: int, gamma: int, params: Any
) -> None:
    led, lagged = (make(method, gamma, max_batch_size=batch_size, lagged=lagged) for lagged in ("off", "on"))
    assert isinstance(lagged, LaggedEngine)
    lagged._capture = capture if batch_size == 3 else None
    assert run(lagged, requests(*params)) == run(led, requests(*params))
    assert 0 < led.counters.accepted < led.counters.drafted


def test_a_head_that_drafts_trees_needs_the_host(make: Callable[..., Engine]) -> None:
    with pytest.raises(ValueError, match="method eagle3 drafts on the host here, as trees"):
        make("eagle3", 3, tree=parse_tree("2x4"), lagged="on")


def test_a_prompts_features_are_not_kept_once_the_draft_has_them(make: Callable[..., Engine]) -> None:
    """They are a part of those of the whole prompt, which is large."""
    lagged = make("eagle3", 3, lagged="on")
    lagged.add(requests(GREEDY)[0])
    lagged.step()
    assert lagged.drafter._waiting[0] == []


def test_without_a_drafter_nothing_is_drafted() -> None:
    plain = on_device(NoDrafter(), rows=1, gamma=0)
    assert plain is not None
    assert list(plain.drawn(None, torch.zeros(1, 1), torch.zeros(1, 1), 1)) == []  # type: ignore[arg-type]
