"""The trace formats that specbench reads: one line of FORMATS each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from specbench.errors import SpecbenchError
from specbench.workloads.traces.units import UNITS, Unit


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """Which fields hold what. A table's columns go by their names in small letters.

    arrival: a date, or a number in `unit`;  prompt, output: tokens
    session: whose equal values are turns of one conversation;  blocks: ids of the prompt's blocks, each of which stands
        for all that comes before it too
    delay:   milliseconds since the turn before, in the place of an arrival
    telling: fields that set a format apart from others with the same three
    """

    arrival: str
    prompt: str
    output: str
    unit: Unit
    session: str | None = None
    blocks: str | None = None
    delay: str | None = None
    telling: frozenset[str] = frozenset()

    @property
    def needed(self) -> frozenset[str]:
        return frozenset({self.arrival, self.prompt, self.output})

    @property
    def fields(self) -> tuple[str, ...]:
        """All that is read of a row."""
        optional = (self.session, self.blocks, self.delay)
        return (self.arrival, self.prompt, self.output, *(name for name in optional if name is not None))


_LENGTHS = ("timestamp", "input_length", "output_length")

FORMATS = {
    "azure": TraceFormat("timestamp", "contexttokens", "generatedtokens", "s"),
    "burstgpt": TraceFormat("timestamp", "request tokens", "response tokens", "s", session="session id"),
    "mooncake": TraceFormat(*_LENGTHS, "ms", blocks="hash_ids", telling=frozenset({"hash_ids"})),
    "aiperf": TraceFormat(
        *_LENGTHS,
        "ms",
        session="session_id",
        blocks="hash_ids",
        delay="delay",
        telling=frozenset({"hash_ids", "session_id", "delay", "text_input"}),
    ),
    "guidellm": TraceFormat(*_LENGTHS, "s"),
    "vllm": TraceFormat("arrival_time", "input_toks", "output_toks", "s"),
    "log": TraceFormat("timestamp", "prompt_tokens", "output_tokens", "s", session="session_id"),
}


def find_format(path: Path, fields: Collection[str], name: str | None) -> str:
    """The name of the format of a trace with these fields: the one asked for, or the only one that fits.

    Raises SpecbenchError where none does, or several do as well as each other.
    """
    if name is not None:
        if name not in FORMATS:
            raise SpecbenchError(f"--format: {name!r} is no format of traces. Choose from: {', '.join(FORMATS)}.")
        if missing := sorted(FORMATS[name].needed.difference(fields)):
            raise SpecbenchError(f"{path}: no field {missing[0]!r}, which a trace of format {name} has.")
        return name
    fitting = [name for name, form in FORMATS.items() if form.needed.issubset(fields)]
    if not fitting:
        known = "; ".join(f"{name} ({', '.join(sorted(form.needed))})" for name, form in FORMATS.items())
        raise SpecbenchError(f"{path}: no trace of a known format. Name the fields as in one of these: {known}.")
    if len(fitting) > 1:
        told = {name: FORMATS[name].telling.intersection(fields) for name in fitting}
        if not any(told.values()):
            choices = " or ".join(f"--format {name} ({UNITS[FORMATS[name].unit].name})" for name in fitting)
            raise SpecbenchError(f"{path}: its fields fit several formats, and their times differ. Say {choices}.")
        # All that tells the one, and nothing that would tell the other and is missing.
        fitting.sort(key=lambda name: (-len(told[name]), len(FORMATS[name].telling)))
    return fitting[0]
