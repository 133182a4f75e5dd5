"""Gamma by the batch size is the schedule's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specbench.decoder.policies import parse
from specbench.decoder.policies.base import Step
from specbench.schedule import Schedule

BY_BATCH = st.lists(st.integers(0, 8), min_size=1, max_size=40).filter(any)


@given(by_batch=BY_BATCH, sizes=st.lists(st.integers(1, 60), min_size=1, max_size=10))
def test_a_table_gives_every_session_what_the_schedule_says_of_their_number(
    by_batch: list[int], sizes: list[int]
) -> None:
    schedule = Schedule.of(dict(enumerate(by_batch, start=1)))
    policy = parse(f"schedule:{schedule}")
    assert policy.largest == schedule.largest
    for size in sizes:
        assert policy.choose(range(size)) == [schedule.at(size)] * size
        policy.observe(Step(range(size), [0] * size, [0] * size, [0] * size, 1.0))
