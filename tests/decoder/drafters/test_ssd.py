"""Prepared drafts are those that would have been made afterwards; only when they are made is another matter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from asking import GREEDY, SAMPLED, requests
from driving import assert_cache_is_a_fresh_prefill, run, tokens

from specbench.decoder.drafters.ssd import SSD
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine


@pytest.mark.parametrize("verification", ["rejection", "block", "coupled"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_tokens_and_acceptance_are_those_of_the_draft_model(
    engine: Callable[..., Engine], batch_size: int, verification: str
) -> None:
    prepared, late = (
        engine(method, 3, max_batch_size=batch_size, verification=verification) for method in ("ssd", "pruned")
    )
    asked = requests(SAMPLED, GREEDY)
    assert tokens(run(prepared, asked)) == tokens(run(late, asked))
    assert prepared.counters.accepted_at == late.counters.accepted_at
    assert prepared.counters.drafted == late.counters.drafted
    assert 0 < prepared.counters.ready < prepared.counters.prepared


def test_where_the_target_drafts_for_itself_every_draft_but_the_first_is_ready(engine: Callable[..., Engine]) -> None:
    speculating = engine("ssd-self", 3, max_batch_size=1)
    run(speculating, requests(GREEDY))
    counters, asked = speculating.counters, len(requests(GREEDY))
    assert counters.ready == counters.prepared == counters.drafts - asked
    assert counters.late == asked
    assert counters.seconds["prepare"] > 0


def test_without_a_guess_nothing_is_ready(engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    speculating = engine("ssd-self", 3, max_batch_size=2)
    # Guesses that never come true: tokens that the target did not choose.
    likeliest = SSD._likeliest
    monkeypatch.setattr(SSD, "_likeliest", lambda *args: likeliest(*args) * 0 + 255)
    run(speculating, requests(GREEDY))
    counters = speculating.counters
    assert counters.ready < counters.prepared / 20
    assert counters.late > counters.passes * 0.9


def test_steps_without_a_draft_make_what_was_prepared_useless(
    engine: Callable[..., Engine], plain: Callable[..., dict[str, list[int]]]
) -> None:
    speculating = engine("ssd", "schedule:1=3+2=0", max_batch_size=3)
    got: dict[str, list[int]] = {request.id: [] for request in requests(GREEDY)}
    waiting, steps = requests(GREEDY), 0
    while waiting or speculating.has_work:
        steps += 1
        if waiting and steps % 12 == 1:  # so that now one runs, now several
            speculating.add(waiting.pop())
        for output in speculating.step():
            got[output.request_id] += output.token_ids
        assert_cache_is_a_fresh_prefill(speculating)
    assert got == plain(GREEDY)
    assert 0 < speculating.counters.drafts < speculating.counters.steps
    assert speculating.counters.ready > 0


def test_it_needs_a_draft_model_of_the_same_vocabulary(target: Path, save_llama: Callable[..., Path]) -> None:
    with pytest.raises(ValueError, match="method ssd needs the directory"):
        load_engine(target, method="ssd", gamma=2)
    other = save_llama(vocab_size=300)
    (other / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="method ssd needs one vocabulary"):
        load_engine(target, method="ssd", gamma=2, drafter=other)
