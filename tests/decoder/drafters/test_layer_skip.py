"""The target without some of its sublayers drafts in the target's own cache, and leaves no trace there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from asking import GREEDY, requests
from driving import assert_cache_is_a_fresh_prefill, run, tokens
from transformers import LlamaForCausalLM

from specbench.decoder.drafters.layer_skip import LayerSkip
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine

LONG = replace(GREEDY, max_tokens=60)


def test_the_search_runs_beside_other_requests_and_the_cache_stays_right(
    engine: Callable[..., Engine], plain: Callable[..., dict[str, list[int]]]
) -> None:
    speculating = engine("layer_skip", 3, max_batch_size=3, max_model_len=96)
    drafter = speculating.drafter
    assert isinstance(drafter, LayerSkip)
    agreements, got = [], {request.id: [] for request in requests(LONG)}
    for request in requests(LONG):
        speculating.add(request)
    while speculating.has_work:
        for output in speculating.step():
            got[output.request_id] += output.token_ids
        assert_cache_is_a_fresh_prefill(speculating)
        agreements.append(drafter.search.agreement)
    assert got == plain(LONG, max_model_len=96)
    assert agreements[0] == 0 < agreements[-1]
    assert agreements == sorted(agreements)
    assert speculating.counters.accepted > 0


def test_a_skipped_layer_is_a_layer_that_is_not_there(engine: Callable[..., Engine], pruned: Path) -> None:
    """Without both sublayers of the two middle layers the target is the pruned model."""
    target = engine(max_batch_size=1).target
    thinned = target.without(frozenset((layer, part) for layer in (1, 2) for part in ("attention", "mlp")))
    ids = torch.tensor([[5, 6, 7, 8, 5, 6]])
    at = torch.arange(6)[None]
    with torch.inference_mode():
        view = engine(max_batch_size=1).cache.enter(slice(0, 1), at, at, used=6)
        ours = thinned.forward(ids, view, logits=6).logits
        theirs = LlamaForCausalLM.from_pretrained(pruned)(ids).logits
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    assert target._run_layers is not thinned._run_layers


def test_an_agreement_is_the_share_of_tokens_that_the_thinned_target_would_have_said(
    engine: Callable[..., Engine],
) -> None:
    speculating = engine("layer_skip", 2, max_batch_size=1, max_model_len=96)
    drafter = speculating.drafter
    assert isinstance(drafter, LayerSkip)
    request = requests(LONG)[1]
    speculating.add(request)
    for _ in range(20):
        speculating.step()
    (sequence,) = speculating._rows
    assert sequence is not None
    text = sequence.tokens
    with torch.inference_mode():
        # The whole target would have said all that it said.
        assert drafter._agreement(speculating.target, 0, text) == 1
        assert drafter._agreement(speculating.target, 0, [*text[:-4], 1, 2, 3, 4]) < 1
    assert_cache_is_a_fresh_prefill(speculating)


def test_what_one_request_taught_serves_the_next(engine: Callable[..., Engine]) -> None:
    speculating = engine("layer_skip", 3, max_batch_size=1, max_model_len=96)
    run(speculating, requests(LONG)[:1])
    drafter = speculating.drafter
    assert isinstance(drafter, LayerSkip)
    learned = drafter.search.agreement
    assert tokens(run(speculating, requests(LONG)[1:2])).keys() == {"1"}
    assert drafter.search.agreement >= learned > 0


def test_a_target_of_two_layers_has_none_to_skip(pruned: Path) -> None:
    with pytest.raises(ValueError, match=r"leaves out layers between the first and the last, and .* has 2 in all"):
        load_engine(pruned, method="layer_skip", gamma=2, max_model_len=64)
