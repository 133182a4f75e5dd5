"""What a model directory holds, as hashes: they go into the fingerprint of every figure measured with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from specbench.cache import cache_dir
from specbench.model_config import tokenizer_config
from specbench.store.atomic import replacing

MODEL_SUFFIXES = frozenset(
    {".json", ".jinja", ".model", ".tiktoken", ".txt", ".py", ".safetensors", ".bin", ".pt", ".gguf"}
)
"""Files that can change an output: configuration, tokenizer, remote code, weights. Not README, licence or pictures."""

TOKENIZER_FILES = (
    "added_tokens.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def directory_digest(directory: Path) -> str:
    """SHA-256 over the sorted names and contents of the files that can change an output (MODEL_SUFFIXES, top level).

    A file whose size and mtime did not change since the last call is not read again: weights are large.
    """
    return _digest(directory, (f.name for f in directory.iterdir() if f.suffix in MODEL_SUFFIXES and f.is_file()))


def tokenizer_digests(directory: Path) -> dict[str, str | None]:
    """`tokenizer`: the same over the tokenizer's files alone; `chat_template`: SHA-256 of its text or None."""
    return {
        "tokenizer": _digest(directory, (name for name in TOKENIZER_FILES if (directory / name).is_file())),
        "chat_template": _chat_template_sha256(directory),
    }


def _chat_template_sha256(directory: Path) -> str | None:
    template: object = None
    if (file := directory / "chat_template.jinja").is_file():
        template = file.read_text("utf-8")
    elif (directory / "tokenizer_config.json").is_file():
        template = tokenizer_config(directory).get("chat_template")
    if template is None:
        return None
    # Older models list several named templates: hash the list as it stands.
    text = template if isinstance(template, str) else json.dumps(template, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(directory: Path, names: Iterable[str]) -> str:
    directory = directory.resolve()
    known = _known_hashes(directory)
    fresh = False
    digest = hashlib.sha256()
    for name in sorted(names):
        file = directory / name
        state = f"{file.stat().st_size} bytes, mtime {file.stat().st_mtime_ns} ns"
        if known.get(name, {}).get("state") != state:
            known[name] = {"state": state, "sha256": file_sha256(file)}
            fresh = True
        digest.update(f"{name}\0{known[name]['sha256']}\n".encode())
    if fresh:
        _remember(directory, known)
    return digest.hexdigest()


def _memory(directory: Path) -> Path:
    return cache_dir() / "digests" / f"{hashlib.sha256(str(directory).encode()).hexdigest()[:16]}.json"


def _known_hashes(directory: Path) -> dict[str, dict[str, str]]:
    try:
        known: dict[str, dict[str, str]] = json.loads(_memory(directory).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return known


def _remember(directory: Path, known: dict[str, dict[str, str]]) -> None:
    file = _memory(directory)
    with suppress(OSError):  # only a memory: a cache that cannot be written costs time, nothing else
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as partial:
            partial.write_text(json.dumps(known, indent=1), "utf-8")
