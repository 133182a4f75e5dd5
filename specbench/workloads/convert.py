"""From one workload format to another, prompt by prompt: what the other format cannot hold is counted, not hidden."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.store.atomic import replacing
from specbench.workloads.load import read_prompts
from specbench.workloads.prompt import Prompt
from specbench.workloads.readers import BadEntry, find_writer

LINES, ARRAY = (".jsonl", ".jsonl.gz"), (".json", ".json.gz")
_FIELDS = tuple(f.name for f in fields(Prompt))


@dataclass(slots=True)
class Converted:
    """What became of a file's prompts.

    lost:     how many prompts lost each of their fields; `prompt` where plain text became a message of the user
    left_out: how many the format cannot hold at all, by the reason;  skipped: a sentence per broken line
    """

    written: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)


def convert(
    source: Path,
    target: Path,
    to: str,
    *,
    form: str | None = None,
    skip_bad_lines: bool = False,
    limit: int | None = None,
    category: str | None = None,
) -> Converted:
    """Write the prompts of a file as another format has them, one in memory at a time, in the place of what was there.

    form, to: names in readers.FORMATS;  limit: prompts to write at most;  category: of those to write
    What is lost is found by reading every entry back. Raises SpecbenchError, and leaves no half of a target.
    """
    writer = find_writer(to)
    done = Converted()
    if target.exists() and source.exists() and target.samefile(source):
        raise SpecbenchError(f"{target} is what is read: what {to} does not keep would be gone. Give another name.")
    with _entries(target) as write:
        for prompt in read_prompts(source, form, skip_bad_lines, done.skipped):
            if category is not None and prompt.category != category:
                continue
            try:
                entry = writer.entry_of(prompt)
                back = writer.prompt_of(entry, f"{target.stem}-{done.written + 1}")
            except BadEntry as bad:
                done.left_out[bad.problem.what] += 1
                continue
            write(entry)
            done.written += 1
            done.lost.update(_lost(prompt, back))
            if done.written == limit:
                break
        if not done.written:
            reasons = "".join(f"; of {count} {what}" for what, count in done.left_out.items())
            of = "" if category is None else f" of category {category!r}"
            raise SpecbenchError(f"{source} holds no prompt{of} to write as {to}{reasons}.")
    return done


@contextmanager
def _entries(target: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Gives what writes an entry: as a line, or into an array where the name is one of ARRAY."""
    name = target.name.lower()
    if not name.endswith(LINES + ARRAY):
        raise SpecbenchError(f"{target}: the name of what is written must end in {', '.join(LINES + ARRAY)}.")
    if target.is_dir():
        raise SpecbenchError(f"{target} is a directory. Give the name of a file to write.")
    if not target.parent.is_dir():
        raise SpecbenchError(f"no directory {target.parent} to write {target.name} to.")
    begin, between, end = ("[\n", ",\n", "\n]\n") if name.endswith(ARRAY) else ("", "\n", "\n")
    opened: Callable[..., Any] = gzip.open if name.endswith(".gz") else open
    with replacing(target) as partial, opened(partial, "wt", encoding="utf-8") as file:
        before = begin

        def write(entry: Mapping[str, Any]) -> None:
            nonlocal before
            file.write(before + json.dumps(entry, ensure_ascii=False))
            before = between

        yield write
        file.write(end)


def _lost(prompt: Prompt, back: Prompt) -> Iterator[str]:
    for name in _FIELDS:
        kept = getattr(prompt, name)
        if kept and kept != getattr(back, name):
            yield name
