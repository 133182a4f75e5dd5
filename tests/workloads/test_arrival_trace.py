"""Recorded arrivals are read from the formats that they are published in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specbench.errors import SpecbenchError
from specbench.workloads.arrival_trace import read_arrival_trace

MOONCAKE = '{"timestamp": 0, "input_length": 5}\n{"timestamp": 250, "input_length": 7}\n\n{"timestamp": 3000}\n'
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:17:03.9799600,4808,10\r\n"
    "2023-11-16 18:17:04.2299600,3180,8\r\n"
    "2023-11-16 18:17:06.9799600,110,27\r\n"
)


@pytest.mark.parametrize(
    "text",
    [
        MOONCAKE,
        AZURE,
        "0\n0.25\n3\n",
        "id,Timestamp\na,100\nb,100.25\nc,103\n",
        "\ufeff3\n0.25\n0\n",
        'note,timestamp\n"a, b",10.0\n"c",10.25\n"d",13.0\n',
    ],
    ids=["Mooncake", "Azure", "seconds", "a table of seconds", "out of order", "quoted"],
)
def test_the_same_arrivals_in_every_form(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8")
    np.testing.assert_allclose(read_arrival_trace(path), [0.0, 0.25, 3.0], atol=1e-6)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "two arrivals or more"),
        ("5\n", "two arrivals or more"),
        ("5\n5\n", "at different times"),
        ("5\nsoon\n", "trace:2: no arrival time"),
        ("0\nnan\n", "trace:2: no arrival time"),
        ("tokens,when\n1,2\n", "trace:1: .*TIMESTAMP"),
        ('{"timestamp": 1}\n{"time": 2}\n', "trace:2: .*timestamp"),
        ("TIMESTAMP\n2023-13-01 00:00:00\n", "trace:2"),
        ("a,TIMESTAMP\n1\n", "trace:2"),
        ("0\n1e308\n", "trace:2: no arrival time"),
        pytest.param("a,TIMESTAMP\n" + "1" * 200_000 + ",1\n", "two arrivals or more", id="a long field elsewhere"),
        pytest.param('{"timestamp": ' + "[" * 100_000, "trace:1: no arrival time", id="too deep"),
        pytest.param('{"timestamp": 1' + "0" * 400 + "}", "trace:1: no arrival time", id="too large"),
    ],
)
def test_what_is_no_trace_is_one_sentence_with_the_line(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(SpecbenchError, match=sentence) as caught:
        read_arrival_trace(path)
    assert "JSON Lines" in str(caught.value)


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match=r"nowhere\.csv"):
        read_arrival_trace(tmp_path / "nowhere.csv")
