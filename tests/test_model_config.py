from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.model_config import model_config, tokenizer_config


@pytest.mark.parametrize("read", [model_config, tokenizer_config])
@pytest.mark.parametrize("content", [b"{", b"[]", b"5", b"\xff", b"", b"[" * 100_000, None])
def test_a_broken_file_is_one_sentence_with_its_name(tmp_path, read, content):
    file = tmp_path / ("config.json" if read is model_config else "tokenizer_config.json")
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SpecbenchError, match=r"not a \w+'s configuration") as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text()))
def test_an_object_is_read_as_it_stands(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(content))
    assert model_config(folder) == content
