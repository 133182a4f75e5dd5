"""`specbench fit` as a user meets it, on the committed example run."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from specbench.cli.fit import fit

EXAMPLE = Path(__file__).parents[2] / "reports" / "example"


def test_predictions_error_and_parameters_in_words(specbench: Any, tmp_path: Path) -> None:
    done = specbench("fit", EXAMPLE, "--predict", "batch_size=2,gamma=4,workload=chat", "--plot", "fit.png")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "# measured and predicted: cell, tok/s, predicted without it, error"
    assert sum(line.startswith(("structured, ", "chat, ")) and "\t" in line for line in lines) == 8 + 1
    assert re.search(r"^chat, ngram γ4, batch 2\t[\d.]+ \[[\d.]+, [\d.]+\]\t[\d.]+ \[", done.stdout, re.MULTILINE)
    assert re.search(
        r"a verify of 2.5 tokens on average \(γ 4\) costs [\d.]+ decodes at batch 1, [\d.]+ at batch 4", done.stdout
    )
    assert re.search(r"Held out in turn, cells are predicted within [\d.]+% on average", done.stdout)
    assert lines[-1] == "Plot: fit.png"
    png = (tmp_path / "fit.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert 500 < width < height


def test_json_has_the_keys_that_the_help_names(specbench: Any) -> None:
    done = specbench("fit", EXAMPLE, "--predict", "batch_size=16,gamma=3,method=ngram", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    told = set(re.findall(r"\w+", (fit.__doc__ or "").split("Keys of --json:")[1]))
    assert set(record) | set(record["cells"][0]) | set(record["predictions"][0]) <= told
    assert len(record["cells"]) == 8
    errors = [abs(cell["error_percent"]) for cell in record["cells"]]
    assert record["held_out_error_percent"] == pytest.approx(sum(errors) / len(errors))
    for prediction in record["predictions"]:
        for figure in ("output_tokens_per_s", "speedup"):
            assert prediction[figure]["low"] < prediction[figure]["value"] < prediction[figure]["high"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "nowhere"),
        ((EXAMPLE, "--predict", "batch_size"), "--predict: expected NAME=VALUE, as in batch_size=16,gamma=3"),
        ((EXAMPLE, "--hardware", "here.yaml"), "--hardware is for --gpu"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[object, ...], said: str, specbench: Any) -> None:
    done = specbench("fit", *arguments)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
