"""A unit that cannot be is refused by name, with the way out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.workloads.traces import read_trace


def trace(folder: Path, *stamps: float, **more: object) -> Path:
    path = folder / "trace.jsonl"
    entries = ({"timestamp": t, "input_length": 9, "output_length": 9, **more} for t in stamps)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


@pytest.mark.parametrize(
    ("form", "stamps", "said"),
    [
        ("mooncake", [i / 4 for i in range(400)], "taken for milliseconds, and would be 4,000 requests per second"),
        ("mooncake", [i * 2.25 for i in range(400)], "would be 444 requests per second at fractions of them"),
        ("guidellm", [i * 400.0 for i in range(50)], "taken for seconds, and would be one request every 400 s"),
        ("guidellm", [0.0, 2e7], r"would span 231 days.*--time-unit \(s, ms, us, ns\)"),
        ("guidellm", [1764500000000, 1764500000900], "look like milliseconds since 1970"),
        ("mooncake", [1764500000.25, 1764500001.5], "look like seconds since 1970"),
    ],
)
def test_an_absurd_rate_span_or_clock_is_refused(form, stamps, said: str, tmp_path: Path) -> None:
    path = trace(tmp_path, *stamps)
    with pytest.raises(SpecbenchError, match=said):
        read_trace(path, form)
    other = "s" if form == "mooncake" else "ms"
    assert read_trace(path, form, other).unit == other


def test_what_the_user_says_is_believed(tmp_path: Path) -> None:
    path = trace(tmp_path, *(i * 400.0 for i in range(50)))
    traffic = read_trace(path, "guidellm", "s").traffic
    assert traffic.arrival[-1] == 49 * 400


def test_rates_of_published_traces_pass(tmp_path: Path) -> None:
    for form, gap in (("mooncake", 257), ("guidellm", 0.4), ("guidellm", 3.7)):
        read_trace(trace(tmp_path, *(i * gap for i in range(100))), form)
