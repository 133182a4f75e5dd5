"""The truth log: what the server really did, step by step, as JSON lines; and its reader.

Times are `time.perf_counter()`, on Linux one clock for all processes of a machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from specbench.acceptance import AcceptanceCounts
from specbench.errors import SpecbenchError


class TruthLog:
    """Writes one record a line; nowhere without a path. Records of a request name it by `request`, its place in order.

    arrival  request, time, seed, category, prompt_tokens, max_tokens
    prefill  request, start, end, cached
    step     request, time (when it was due), drafted, accepted, emitted, batch, seconds
    event    request, time (just before the write that completes it), written (just after), tokens
    finish   request, time, reason, error
    foreign  steps, drafted, accepted: other people's requests
    """

    def __init__(self, path: Path | None) -> None:
        self._file: TextIO | None = None if path is None else path.open("a", encoding="utf-8")

    def write(self, record: str, **fields: Any) -> None:
        if self._file is None:
            return
        self._file.write(json.dumps({"record": record, **fields}, separators=(",", ":")) + "\n")
        if record in ("arrival", "finish"):  # who reads sees that a request came, and then waits for its end
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True, slots=True)
class TrueStep:
    """One verification pass of one request.

    drafted, accepted: as verification judged them;  emitted: tokens that the output had room for, at most accepted + 1
    due: when the pass ended by the engine's clock;  batch, seconds: of the whole pass
    """

    due: float
    drafted: int
    accepted: int
    emitted: int
    batch: int
    seconds: float

    @property
    def kept(self) -> int:
        """Accepted tokens that were emitted."""
        return min(self.accepted, self.emitted)


@dataclass(frozen=True, slots=True)
class TrueEvent:
    """Tokens that left together. time, written: just before and just after the write that completed the event"""

    time: float
    written: float
    tokens: int


@dataclass(slots=True)
class TrueRequest:
    """Everything that happened to one request; None for what did not."""

    request: int
    arrived: float
    seed: int | None
    category: str | None
    prompt_tokens: int
    max_tokens: int
    prefill_start: float | None = None
    prefill_end: float | None = None
    cached_tokens: int = 0
    steps: list[TrueStep] = field(default_factory=list)
    events: list[TrueEvent] = field(default_factory=list)
    finished: float | None = None
    reason: str | None = None
    error: str | None = None

    @property
    def output_tokens(self) -> int:
        return sum(event.tokens for event in self.events)


@dataclass(frozen=True, slots=True)
class Truth:
    """requests: in order of arrival;  foreign: what the counters hold besides them"""

    requests: tuple[TrueRequest, ...]
    foreign: AcceptanceCounts

    def by_seed(self) -> dict[int, TrueRequest]:
        """Requests by the seed that the client sent; the last one where several had the same."""
        return {request.seed: request for request in self.requests if request.seed is not None}


def counts(requests: Iterable[TrueRequest], gamma: int, *, whole_last_step: bool = False) -> AcceptanceCounts:
    """Acceptance summed over requests: what was emitted, or with `whole_last_step` all that verification accepted."""
    steps = [step for request in requests for step in request.steps]
    accepted = [step.accepted if whole_last_step else step.kept for step in steps]
    return AcceptanceCounts(
        steps=len(steps),
        drafted=sum(step.drafted for step in steps),
        accepted=sum(accepted),
        drafts=sum(step.drafted > 0 for step in steps),
        by_position=tuple(sum(a > k for a in accepted) for k in range(gamma)),
    )


def read_truth(path: Path) -> Truth:
    """Read a log. A last line that was cut by a crash is left out. Raises SpecbenchError where there is no log."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise SpecbenchError(f"cannot read the truth log {path}: {error.strerror}.") from error
    requests: dict[int, TrueRequest] = {}
    steps = drafted = accepted = 0
    for line in lines[:-1]:
        record = json.loads(line)
        kind, request = record.pop("record"), record.pop("request", None)
        match kind:
            case "arrival":
                requests[request] = TrueRequest(request, record.pop("time"), **record)
            case "prefill":
                true = requests[request]
                true.prefill_start, true.prefill_end = record["start"], record["end"]
                true.cached_tokens = record["cached"]
            case "step":
                requests[request].steps.append(TrueStep(record.pop("time"), **record))
            case "event":
                requests[request].events.append(TrueEvent(**record))
            case "finish":
                true = requests[request]
                true.finished, true.reason, true.error = record["time"], record["reason"], record["error"]
            case "foreign":
                steps, drafted = steps + record["steps"], drafted + record["drafted"]
                accepted += record["accepted"]
    return Truth(tuple(requests.values()), AcceptanceCounts(steps, drafted, accepted))
