"""Schedules of gamma: as they are written, and what they say at every batch size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.cli.options import gammas
from specbench.errors import SpecbenchError
from specbench.schedule import Schedule
from specbench.speculation import BASELINE, Speculation
from specbench.sweep.config_file import load_config, save_config

BY_BATCH = st.lists(st.integers(0, 8), min_size=1, max_size=40).filter(any)


@given(BY_BATCH, st.integers(1, 80))
def test_its_ranges_hold_every_batch_size_once_and_say_what_it_says(by_batch: list[int], last: int) -> None:
    schedule = Schedule.of(dict(enumerate(by_batch, start=1)))
    assert [schedule.at(size) for size in range(1, len(by_batch) + 1)] == by_batch
    assert schedule.at(1_000) == by_batch[-1]
    ranges = schedule.ranges(last)
    covered = [size for first, end, _ in ranges for size in range(first, end + 1)]
    assert covered == list(range(1, len(covered) + 1))
    assert len(covered) >= last or len(covered) >= len(by_batch)
    assert all(schedule.at(size) == gamma for first, end, gamma in ranges for size in (first, end))
    assert Schedule.parse(str(schedule)) == schedule


def test_it_is_written_from_batch_size_to_gamma() -> None:
    schedule = Schedule.parse("schedule:1=4+5=2+9=0")
    assert schedule.steps == ((1, 4), (5, 2), (9, 0))
    assert schedule.ranges(8) == [(1, 4, 4), (5, 8, 2), (9, 9, 0)]
    assert schedule.largest == 4


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("4", "expected a schedule such as schedule:1=4"),
        ("1=4,5=2", "expected a schedule"),
        ("schedule:1=\N{ARABIC-INDIC DIGIT FOUR}", "expected a schedule"),
        ("2=4", "begins at batch size 1 and goes up; got 2=4"),
        ("1=4+1=2", "goes up"),
        ("1=0+4=0", "needs one gamma above 0"),
    ],
)
def test_a_mistake_is_one_sentence(written: str, sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        Schedule.parse(written)


def test_a_speculation_with_one_is_an_arm_of_its_own() -> None:
    arm = Speculation.scheduled("ngram", Schedule.parse("1=4+9=0"))
    assert (arm.method, arm.gamma, arm.schedule) == ("ngram", 4, "1=4+9=0")
    assert (arm.name, arm.label) == ("ngram-schedule", "ngram-g1=4+9=0")
    assert arm != Speculation("ngram", 4)
    assert Speculation("ngram", 4).name == "ngram"
    with pytest.raises(SpecbenchError, match=r"the largest gamma of 1=4\+9=0 is not 2"):
        Speculation("ngram", 2, schedule="1=4+9=0")


def test_a_sweep_takes_one_beside_fixed_gammas(tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert gammas("4,schedule:1=4+9=0,2", "--gamma") == [4, "schedule:1=4+9=0", 2]
    config = load_config(None, {"workload": ["chat.jsonl"], "gamma": [4, "schedule:1=4+9=0", 2]})
    scheduled = Speculation.scheduled("ngram", Schedule.parse("1=4+9=0"))
    assert config.speculations() == (BASELINE, Speculation("ngram", 2), Speculation("ngram", 4), scheduled)
    save_config(config, tmp_path / "saved.yaml")
    assert load_config(tmp_path / "saved.yaml", {}) == config


@pytest.mark.parametrize(
    ("gamma", "sentence"),
    [
        (["fast"], "--gamma: expected a schedule such as"),
        (["schedule:3=1"], r"--gamma: a schedule begins at batch size 1 and goes up; got 3=1\.$"),
        (["schedule:x"], r"--gamma: expected a schedule [^;]*; got 'schedule:x'\.$"),
        (["schedule:1=1", "schedule:1=2"], "--gamma: one schedule at a time"),
        ([0], "--gamma: Input should be greater than or equal to 1"),
    ],
)
def test_a_sweep_refuses_what_is_none(gamma: list[object], sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        load_config(None, {"workload": ["chat.jsonl"], "gamma": gamma})
