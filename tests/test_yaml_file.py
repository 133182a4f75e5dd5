"""YAML files: a mapping or a sentence."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.yaml_file import read_mapping


def test_a_key_may_come_again_through_a_merge(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("base: &base {a: 1, b: 2}\nmine: {<<: *base, a: 3}\n")
    assert read_mapping(path)["mine"] == {"a": 3, "b": 2}


def test_a_key_given_twice_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a:\n  b: 1\n  c: 2\n  b: 3\n")
    with pytest.raises(SpecbenchError, match=r"a\.yaml:4: 'b' is given twice"):
        read_mapping(path)


@given(st.one_of(st.binary(max_size=60), st.text("[]{}&*!<:,- ab\n\"'0", max_size=60).map(str.encode)))
def test_no_bytes_at_all_bring_anything_but_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("y") / "a.yaml"
    path.write_bytes(content)
    with suppress(SpecbenchError):
        assert isinstance(read_mapping(path), dict)
