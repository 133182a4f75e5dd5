from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from specbench.workloads import Prompt, load_workload, readers
from specbench.workloads.readers import Format


def read_turns(path: Path) -> Iterator[tuple[int, Prompt]]:
    yield 1, Prompt("turns", prompt=path.name)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a new format takes: a function, and one line in FORMATS."""
    # The module of this test has no importable name, so the registry is given one that has.
    monkeypatch.setattr(readers, "read_turns", read_turns, raising=False)
    turns = Format("specbench.workloads.readers:read_turns", (".jsonl",), frozenset({"turns"}))
    monkeypatch.setattr(readers, "FORMATS", {"turns": turns, **readers.FORMATS})


@pytest.mark.usefixtures("turns")
def test_a_format_is_known_by_the_fields_of_its_first_line(tmp_path):
    path = tmp_path / "question.jsonl"
    path.write_text('\n{"turns": ["Hi"], "question_id": 81}\n')
    assert load_workload(path).prompts[0].id == "turns"


@pytest.mark.usefixtures("turns")
@pytest.mark.parametrize("first", ['{"prompt": "Hi"}', "broken", "[1]", ""])
def test_what_fits_no_other_format_is_read_as_our_own(tmp_path, first):
    path = tmp_path / "chat.jsonl"
    path.write_text(f'{first}\n{{"id": "own", "prompt": "Hi"}}\n')
    assert load_workload(path, skip_bad_lines=True).prompts[-1].id == "own"


@pytest.mark.parametrize("form", readers.FORMATS.values(), ids=readers.FORMATS)
def test_every_registered_reader_is_found_by_its_fields(form, tmp_path):
    path = tmp_path / f"any{form.suffixes[0]}"
    path.write_text(json.dumps(dict.fromkeys(form.fields, "")))
    reader = readers.find_reader(path)
    assert f"{reader.__module__}:{reader.__name__}" == form.reader
