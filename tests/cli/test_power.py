"""`specbench power`: tables for people, keys for machines, sentences for mistakes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
from known_run import NGRAM, measurement, store


def test_the_pairs_to_see_a_change(specbench) -> None:  # type: ignore[no-untyped-def]
    """The row of 2 % noise in the table of the paired t-test."""
    result = specbench("power", "--noise", "2%")
    assert result.returncode == 0, result.stderr
    rows = [line.split("\t")[:2] for line in result.stdout.splitlines()[1:]]
    assert rows == [["1.0%", "44"], ["2.0%", "13"], ["3.0%", "7"], ["5.0%", "5"]]


def test_a_gate_is_planned_with_its_looks(specbench) -> None:  # type: ignore[no-untyped-def]
    result = specbench("power", "--noise", "2.83%", "--gate", "--effect", "5%", "--power", "95%", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert list(report) == [
        *("simulated", "noise", "power", "level", "seconds_per_replicate", "measured", "sweep", "gate")
    ]
    (need,) = report["gate"]
    assert (need["effect"], need["margin"], need["pairs"], need["looks"][0]) == (0.05, 0.03, 26, 5)
    assert need["looks"][-1] >= need["pairs"]
    assert report["sweep"] == []


def test_a_run_tells_the_noise_and_how_long_a_replicate_takes(specbench, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store(
        tmp_path / "run",
        [
            m
            for r, step in enumerate((0.01, 0.0102, 0.0101))
            for at in [f"2030-01-01T00:{2 * r:02}"]
            for m in (
                measurement(replicate=r, started_at=f"{at}:00+00:00"),
                measurement(NGRAM, accepted=3, replicate=r, steps=(step,), started_at=f"{at}:59+00:00"),
            )
        ],
    )
    result = specbench("power", "--run", "run", "--effect", "2%")
    assert result.returncode == 0, result.stderr
    assert "chat-ngram-g4-b1\t0.5%\t3\t1" in result.stdout
    assert "A replicate of all arms of run takes about 116 s: its measurements, and the median wait" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "say how noisy pairs are: --noise 2%, or --run RUN"),
        (("--noise", "2%", "--run", "run"), "say how noisy pairs are"),
        (("--noise", "2"), "--noise: expected a percentage such as 3%; got '2'."),
        (("--noise", "0%"), "--noise: expected more than 0% and less than 100%; got '0%'."),
        (("--noise", "2%", "--gate", "--effect", "2%"), "--effect must be more than --margin 3%"),
        (("--noise", "2%", "--margin", "5%"), "--margin is a gate's: add --gate."),
        (("--run", "nowhere"), "nowhere is not a run of specbench sweep"),
    ],
)
def test_a_mistake_is_a_sentence(specbench, arguments: tuple[str, ...], sentence: str) -> None:  # type: ignore[no-untyped-def]
    result = specbench("power", *arguments)
    assert result.returncode == 1
    assert sentence in result.stderr


def test_a_run_of_one_replicate_knows_no_noise(specbench, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store(tmp_path / "run", [measurement(), measurement(NGRAM, accepted=3)])
    result = specbench("power", "--run", "run")
    assert result.returncode == 1
    assert "no cell with a speedup in two replicates" in result.stderr
