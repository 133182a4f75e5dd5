from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from specbench import digest
from specbench.digest import directory_digest, file_sha256, tokenizer_digests
from specbench.errors import SpecbenchError


@pytest.fixture(autouse=True)
def _own_cache(own_cache: Path) -> None: ...


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(b"weights")
    (directory / "tokenizer.json").write_text("[]")
    (directory / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    return directory


def test_a_files_hash_is_sha256_of_its_bytes(tmp_path):
    content = os.urandom(3 << 20)
    (tmp_path / "file").write_bytes(content)
    assert file_sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"])
def test_a_change_in_any_file_that_matters_changes_the_digest(model, name):
    before = directory_digest(model)
    (model / name).write_text("changed")
    assert directory_digest(model) != before


def test_a_readme_and_the_place_on_disk_do_not_matter(model, tmp_path):
    before = directory_digest(model)
    (model / "README.md").write_text("hello")
    assert directory_digest(model.rename(tmp_path / "elsewhere")) == before


def test_weights_are_read_once_while_they_do_not_change(model, monkeypatch):
    first = directory_digest(model)

    def no_read(path: Path) -> str:
        raise AssertionError(f"read {path} again")

    monkeypatch.setattr(digest, "file_sha256", no_read)
    assert directory_digest(model) == first


def test_a_broken_memory_of_hashes_is_made_anew(model, own_cache):
    first = directory_digest(model)
    (memory,) = (own_cache / "digests").iterdir()
    memory.write_text("{")
    assert directory_digest(model) == first


def test_the_tokenizer_digest_does_not_depend_on_weights(model):
    before = tokenizer_digests(model)
    (model / "model.safetensors").write_bytes(b"other")
    assert tokenizer_digests(model) == before


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_broken_tokenizer_configuration_is_a_sentence(model, content):
    (model / "tokenizer_config.json").write_text(content)
    with pytest.raises(SpecbenchError, match=r"tokenizer_config\.json: not a tokenizer's configuration"):
        tokenizer_digests(model)


def test_the_chat_template_has_the_same_digest_in_either_place(model):
    inside = tokenizer_digests(model)["chat_template"]
    (model / "tokenizer_config.json").write_text("{}")
    assert tokenizer_digests(model)["chat_template"] is None
    (model / "chat_template.jinja").write_text("{{ messages }}")
    assert tokenizer_digests(model)["chat_template"] == inside == hashlib.sha256(b"{{ messages }}").hexdigest()
