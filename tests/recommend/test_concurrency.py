"""Files of concurrency, and what speculation gains over them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.bootstrap import RESAMPLES
from specbench.errors import SpecbenchError
from specbench.recommend.concurrency import Concurrency, gain_over, read_histogram
from specbench.recommend.curves import GammaByBatch


@given(
    st.dictionaries(st.integers(1, 12), st.floats(0.01, 100), min_size=1),
    st.lists(st.floats(0.3, 4), min_size=8, max_size=8),
)
def test_a_gain_lies_between_the_speedups_that_it_is_made_of(weights: dict[int, float], speedups: list[float]) -> None:
    sizes = range(1, 9)
    logs = {s: (math.log(x), np.full(RESAMPLES, math.log(x))) for s, x in zip(sizes, speedups, strict=True)}
    gain, draws = gain_over(GammaByBatch("ngram", dict.fromkeys(sizes, 4), logs), Concurrency.of(weights, "test"))
    met = [dict(zip(sizes, speedups, strict=True)).get(size, 1.0) for size in weights]
    assert gain.value is not None
    assert min(met) - 1e-9 <= gain.value <= max(met) + 1e-9
    assert np.allclose(draws, gain.value)


@pytest.mark.parametrize("text", ["concurrency,share\n1,2\n8,6\n0,100\n\n", '{"1": 2, "8": 6, "0": 100}'])
def test_both_formats_mean_shares_of_busy_time(tmp_path: Path, text: str) -> None:
    (file := tmp_path / "seen").write_text(text)
    found = read_histogram(file)
    assert found.shares == {1: 0.25, 8: 0.75}
    assert found.mean == 6.25
    assert found.beyond(4) == 0.75


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1,2\n", r"seen:1: expected the header concurrency,share"),
        ("", r"seen:1: expected the header .*; got nothing\.$"),
        ("concurrency,share\n1,2\n4,half\n", r"seen:3: expected a whole number .* got '4' and 'half'"),
        ("concurrency,share\n1.5,2\n", r"seen:2: .* got '1.5' and '2'"),
        ("concurrency,share\n1,-2\n", r"seen:2: .* got '1' and '-2'"),
        ("concurrency,share\n1,nan\n", r"seen:2: "),
        ("concurrency,share\n1,2,3\n", r"seen:2: expected two values, as in 4,0.25; got 3"),
        ("concurrency,share\n1,2\n1,3\n", r"seen:3: 1 is there twice"),
        ("concurrency,share\n0,2\n", r"seen: at no time is there a request"),
        ('{"1": true}', r"seen: '1': expected a whole number"),
        ('{"1": 2, "1": 3}', r"seen: '1': 1 is there twice"),
        ('{"1": 2,\n oops}', r"seen:2: not JSON"),
        ('{"1": ' * 100_000, r"seen:1: nested too deep to be read"),
        (
            '{"1": ' + '{"a": ' * 400 + "1" + "}" * 401,
            r"seen: '1': expected a whole .*; got '1' and 'a list or an object'",
        ),
        (
            f"concurrency,share\n1,2\n{'9' * 5_000},1\n",
            r"seen:3: expected .*; got '9{40}'… \(5000 characters\) and '1'\.$",
        ),
        (f"concurrency,share\n{'9' * 200_000},1\n", r"seen:2: not CSV"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(tmp_path: Path, text: str, sentence: str) -> None:
    (file := tmp_path / "seen").write_text(text)
    with pytest.raises(SpecbenchError, match=sentence):
        read_histogram(file)


def test_shares_that_add_up_to_more_than_there_is_are_shares_all_the_same(tmp_path: Path) -> None:
    (file := tmp_path / "seen").write_text("concurrency,share\n1,1e308\n2,1e308\n4,1e308\n8,5e-324\n")
    assert read_histogram(file).shares == pytest.approx({1: 1 / 3, 2: 1 / 3, 4: 1 / 3})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match=r"nowhere\.csv: No such file"):
        read_histogram(tmp_path / "nowhere.csv")
