"""A step on the device goes by what the rows hold there, and by nothing else."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from tape import Tape, capture

from specbench.decoder.device_step import DeviceStep, Rows
from specbench.decoder.gpu_check.engines import make_engine, prompts, run, tokens
from specbench.decoder.gpu_check.models import TINY, TINY_DRAFT, random_llama
from specbench.decoder.lagged import LaggedEngine
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams

CPU, GAMMA = torch.device("cpu"), 3
TEXTS = prompts(3, 6, TINY["vocab_size"])
GREEDY = SamplingParams(temperature=0.0, max_tokens=9, ignore_eos=True)


def engine(**settings: Any) -> LaggedEngine:
    target, draft = (random_llama(shape, torch.float32, CPU, fading=True) for shape in (TINY, TINY_DRAFT))
    made = make_engine(target, draft, gamma=GAMMA, rows=3, length=40, lagged=True, **settings)
    assert isinstance(made, LaggedEngine)
    return made


@pytest.fixture
def begun() -> tuple[DeviceStep, Rows]:
    """A step of three rows whose prompts have been entered, and where they stand."""
    lagged = engine()
    for i, text in enumerate(TEXTS):
        lagged.add(Request(str(i), text, GREEDY))
    while lagged.waiting:
        lagged.step()
    return lagged._step(lagged._live_batch())[0], lagged._state


def held(rows: Rows) -> list[torch.Tensor]:
    return [rows.tokens.clone(), rows.positions.clone(), rows.room.clone()]


@torch.inference_mode()
def do(step: DeviceStep) -> list[list[int]]:
    for part in step.parts.values():
        part()
    found: list[list[int]] = step.results.tolist()
    return found


def test_each_step_begins_where_the_one_before_it_ended(begun: tuple[DeviceStep, Rows]) -> None:
    """Steps alone, and nobody reads them, give what the engine gives."""
    step, rows = begun
    got: list[list[int]] = [[] for _ in TEXTS]
    for _ in range(GREEDY.max_tokens - 1):
        before = rows.room.tolist()
        for text, room, (drafted, kept, following, *draft) in zip(got, before, do(step), strict=True):
            assert kept <= drafted == min(GAMMA, max(0, room - 1))
            assert [token >= 0 for token in draft] == [i < drafted for i in range(GAMMA)]
            text += [*draft[:kept], following] if room else []
    expected = [tokens(outputs)[1:] for outputs in run(engine(), TEXTS, GREEDY)]
    assert got == expected
    assert not rows.room.any()
    assert rows.tokens[:, -1].tolist() == [text[-1] for text in expected]
    assert rows.positions[:, -1].tolist() == [len(text) + GREEDY.max_tokens - 1 for text in TEXTS]


def test_a_row_without_room_stays_as_it_is(begun: tuple[DeviceStep, Rows]) -> None:
    step, rows = begun
    rows.room[1] = 0
    before = held(rows)
    do(step)
    for old, new in zip(before, held(rows), strict=True):
        assert torch.equal(old[1], new[1])
        assert not torch.equal(old[0], new[0])


def test_nothing_in_it_asks_the_host_and_its_memory_stays_where_it_is(begun: tuple[DeviceStep, Rows]) -> None:
    step, rows = begun
    rows.room += 20
    with torch.inference_mode():
        replays = []
        for part in step.parts.values():
            replays.append(capture(part)[0])  # which raises where the host is asked
            replays[-1]()
        before, results = held(rows), step.results
        for replay in replays:
            replay()
    assert step.results is results
    assert all(not torch.equal(old, new) for old, new in zip(before, held(rows), strict=True))


def test_a_row_that_is_left_is_dead(begun: tuple[DeviceStep, Rows]) -> None:
    step, rows = begun
    rows.leave(2)
    drafted, kept, _, *draft = do(step)[2]
    assert (drafted, kept, draft) == (0, 0, [-1] * GAMMA)
    assert rows.positions[2].tolist() == [0, 0]


def test_leaving_a_row_brings_no_number_of_the_hosts(begun: tuple[DeviceStep, Rows]) -> None:
    _, rows = begun
    with Tape():  # which raises where the host is asked
        rows.leave(2)


def test_a_dropped_engine_is_gone_at_once() -> None:
    """With its caches and models, of which a GPU has no place for two."""
    lagged = engine()
    run(lagged, TEXTS, GREEDY)
    assert lagged._steps
    held = [weakref.ref(thing) for thing in (lagged, lagged.cache, lagged.target, lagged._on_device)]
    gc.disable()
    try:
        del lagged
        assert [thing() for thing in held] == [None] * len(held)
    finally:
        gc.enable()
