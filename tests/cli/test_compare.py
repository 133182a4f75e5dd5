"""`specbench compare` as a user or a script runs it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

sys.path += [str(Path(__file__).parents[1] / name) for name in ("analysis", "gate")]
from known_gate import BREEZE, CALM, run

from specbench.cli.main import app
from specbench.errors import SpecbenchError


@pytest.fixture
def runs(tmp_path: Path) -> None:
    """`before`, `slow` (its steps 10% longer), `short` (one launch) and `other` (another target)."""
    run(tmp_path / "before", noise=CALM[:3], batch_sizes=(1,))
    run(tmp_path / "slow", noise=BREEZE[:3], batch_sizes=(1,), slower=1.1, versions={"torch": "9.9"})
    run(tmp_path / "short", noise=BREEZE[:1], batch_sizes=(1,))
    run(tmp_path / "other", noise=BREEZE[:1], batch_sizes=(1,), target={"name": "demo", "digest": "12" * 32})


@pytest.mark.usefixtures("runs")
def test_what_changed_and_what_that_did(specbench: Any, tmp_path: Path) -> None:
    done = specbench("compare", "before", "slow", "--markdown", "c.md", "--plot", "c.svg", "--metric", "speedup")
    assert done.returncode == 0, done.stderr
    assert "B against A: of 1 figure 1 worse." in done.stdout
    assert "version of torch\t2.13.0\t9.9" in done.stdout
    assert re.search(r"chat ngram-g4\tbatch 1\t1\.667\t1\.51\d\t-9\.\d% \[.*\]\t.*\tworse", done.stdout)
    assert (tmp_path / "c.md").read_text().startswith("## Runs compared")
    assert (tmp_path / "c.svg").read_text().startswith("<?xml")


@pytest.mark.usefixtures("runs")
def test_the_exit_code_tells_compared_from_refused_from_cannot_say(specbench: Any) -> None:
    single = specbench("compare", "before", "short", "--json")
    assert (single.returncode, json.loads(single.stdout)["exit_code"]) == (4, 4)
    refused = specbench("compare", "before", "other")
    assert refused.returncode == 1
    assert refused.stderr == (
        "specbench: before and other cannot be compared: target: ababababab… → 1212121212…. "
        "Give runs of the same target, prompts and sampling.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("a",), "give two to 26 runs"),
        (("a", "b"), "a does not exist"),
        (("a", "b", "--metric", "speed"), "cannot compare 'speed'"),
        (("a", "b", "c", "--across-backends"), "--across-backends compares two runs; got 3"),
        (("a", "b", "--across-backends", "--metric", "speedup"), "--metric means nothing with --across-backends"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: tuple[str, ...], says: str) -> None:
    error = CliRunner().invoke(app, ["compare", *arguments]).exception
    assert isinstance(error, SpecbenchError)
    assert says in str(error)
