from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest

from specbench.errors import SpecbenchError
from specbench.workloads import Prompt, load_workload, readers
from specbench.workloads.readers import FORMATS, Format


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    return Prompt(f"asked {default_id}", prompt=entry["asked"])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a new format takes: a module, and one line in FORMATS."""
    # The module of this test has no importable name, so the registry is given one that has.
    monkeypatch.setattr(readers, "prompt_of", prompt_of, raising=False)
    own = Format("specbench.workloads.readers", (frozenset({"asked"}),))
    monkeypatch.setattr(readers, "FORMATS", {"asked": own, **FORMATS})


@pytest.mark.usefixtures("asked")
def test_a_format_is_known_by_the_fields_of_its_first_entry(tmp_path):
    path = tmp_path / "question.jsonl"
    path.write_text('\n{"asked": "Hi", "number": 81}\n')
    assert load_workload(path).prompts == (Prompt("asked question-2", prompt="Hi"),)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("first", ['{"prompt": "Hi"}', "broken", "[1]", ""])
def test_what_fits_no_other_format_is_read_as_our_own(tmp_path, first):
    path = tmp_path / "chat.jsonl"
    path.write_text(f'{first}\n{{"id": "own", "prompt": "Hi"}}\n')
    assert load_workload(path, skip_bad_lines=True).prompts[-1].id == "own"


def example(shape: frozenset[str]) -> dict[str, Any]:
    entry: dict[str, Any] = dict.fromkeys(sorted(name for name in shape if "." not in name), "")
    for name, inner in (name.split(".") for name in sorted(shape) if "." in name):
        entry[name] = [{**(entry[name] or [{}])[0], inner: ""}]
    return entry


@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, shape) for name, form in FORMATS.items() for shape in form.shapes],
    ids=lambda value: value if isinstance(value, str) else "+".join(sorted(value)),  # a set's order is not kept
)
def test_every_shape_of_every_format_is_found_and_fits_no_other(name, shape, tmp_path):
    path = tmp_path / "any.jsonl"
    path.write_text(json.dumps(example(shape)))
    assert readers._fitting(path) == name


def test_where_two_formats_fit_both_are_named_with_the_way_out(tmp_path):
    path = tmp_path / "both.jsonl"
    path.write_text('{"prompt": "Hi", "output_tokens": 5, "output_tokens_count": 7}\n')
    with pytest.raises(SpecbenchError, match=r"both\.jsonl: .*of vllm and of guidellm.*--format vllm"):
        load_workload(path)
    assert [load_workload(path, form=form).prompts[0].max_tokens for form in ("vllm", "guidellm")] == [5, 7]
    with pytest.raises(SpecbenchError, match=r"--format: 'pdf' is none of the formats here\. Choose from: specbench, "):
        load_workload(path, form="pdf")


def test_what_can_be_written_is_what_has_a_writer():
    for form in FORMATS.values():
        assert hasattr(import_module(form.module), "entry_of") >= form.writable
    written = {form.module for form in FORMATS.values() if form.writable}
    assert {form.module for form in FORMATS.values() if hasattr(import_module(form.module), "entry_of")} == written
