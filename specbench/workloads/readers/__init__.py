"""The workload formats that specbench reads and writes: one file and one line of FORMATS each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from specbench.errors import SpecbenchError
from specbench.workloads.readers.base import BadEntry, FormatModule, Problem, Reader, WritableModule
from specbench.workloads.readers.entries import SUFFIXES, read_entries, read_prompts

__all__ = ["FORMATS", "BadEntry", "Format", "Problem", "Reader", "find_reader", "find_writer"]


@dataclass(frozen=True, slots=True)
class Format:
    """How a format is known, and where it is.

    module:   a FormatModule, imported when the first such file is read
    shapes:   the fields that its first entry has, in one of several ways; `turns.text` is a field of the first object
        in the list `turns`
    writable: whether the module is a WritableModule
    """

    module: str
    shapes: tuple[frozenset[str], ...] = (frozenset(),)
    writable: bool = False


def _format(name: str, *shapes: str, writable: bool = False) -> Format:
    """shapes: fields with spaces between them"""
    fields = tuple(frozenset(shape.split()) for shape in shapes or ("",))
    return Format(f"specbench.workloads.readers.{name}", fields, writable)


OWN = "specbench"

FORMATS: Mapping[str, Format] = {
    OWN: _format("jsonl", writable=True),
    "spec-bench": _format("spec_bench", "question_id turns", writable=True),
    "speed-bench": _format("spec_bench", "question_id turns sub_category"),
    "gsm8k": _format("gsm8k", "question answer"),
    "humaneval": _format("humaneval", "prompt entry_point test"),
    "sharegpt": _format("sharegpt", "conversations conversations.from conversations.value", writable=True),
    "sglang": _format(
        "sglang",
        "conversations conversations.content",
        "conversations conversations.value",
        "conversation conversation.content",
        "conversation conversation.value",
        writable=True,
    ),
    "wildchat": _format(
        "wildchat",
        "conversation conversation.role conversation.content conversation_hash",
        "conversation conversation.role conversation.content conversation_id",
    ),
    "openai-batch": _format("openai_batch", "custom_id body", writable=True),
    "openai": _format("openai", "messages model", "messages temperature", "messages max_completion_tokens"),
    "vllm": _format("vllm", "prompt output_tokens", writable=True),
    "guidellm": _format(
        "guidellm", "prompt output_tokens_count", "prompt prompt_tokens_count", "prompt_0", writable=True
    ),
    "aiperf": _format(
        "aiperf",
        "text",
        "texts",
        "turns turns.text",
        "turns turns.texts",
        "text_input",
        "messages output_length",
        writable=True,
    ),
    "log": _format(
        "log",
        "prompt response",
        "prompt completion",
        "messages response",
        "messages response model",
        "messages completion",
        "request response",
    ),
}


def find_reader(path: Path, form: str | None = None) -> Reader:
    """The reader of the format asked for, else of the one with the most of its fields in the file's first entry.

    Raises SpecbenchError where the file is of no kind that is read, or its fields fit two formats equally.
    """
    if form is not None:
        module = _module(form, FORMATS, "--format")
    elif path.name.lower().endswith(SUFFIXES):
        module = import_module(FORMATS[_fitting(path)].module)
    else:
        others = ", ".join(name for name in FORMATS if name != OWN)
        raise SpecbenchError(
            f"{path}: not a workload format that specbench knows. It reads: {OWN} ({' '.join(SUFFIXES)}), and in such "
            f"files {others}."
        )
    return partial(read_prompts, prompt_of=cast(FormatModule, module).prompt_of)


def find_writer(form: str) -> WritableModule:
    """The format of that name, to write. Raises SpecbenchError where there is none."""
    writable = {name: found for name, found in FORMATS.items() if found.writable}
    return cast(WritableModule, _module(form, writable, "--to"))


def _module(form: str, among: Mapping[str, Format], flag: str) -> object:
    if form not in among:
        raise SpecbenchError(f"{flag}: {form!r} is none of the formats here. Choose from: {', '.join(among)}.")
    return import_module(among[form].module)


def _fitting(path: Path) -> str:
    present = _first_fields(path)
    sizes = {
        name: max((len(shape) for shape in form.shapes if shape <= present), default=-1)
        for name, form in FORMATS.items()
    }
    best = [name for name, size in sizes.items() if size == max(sizes.values())]
    if len(best) > 1:
        raise SpecbenchError(
            f"{path}: its first entry has the fields of {' and of '.join(best)}. Say which it is: --format {best[0]}."
        )
    return best[0]


def _first_fields(path: Path) -> frozenset[str]:
    entries: Iterator[tuple[int, Mapping[str, Any] | Problem]] = read_entries(path)
    first = next((entry for _, entry in entries), None)
    if first is None or isinstance(first, Problem):
        return frozenset()
    nested = {
        f"{name}.{field}"
        for name, value in first.items()
        if isinstance(value, list) and value and isinstance(value[0], dict)
        for field, inner in value[0].items()
        if inner is not None  # as Parquet has what other rows have
    }
    return frozenset(first) | nested
