"""A command of the user's own that scores outputs: one JSON object on its standard input, the score as its answer."""

from __future__ import annotations

import json
import os
import selectors
import shlex
import subprocess
import tempfile
import time
from typing import NamedTuple

from specbench.errors import SpecbenchError
from specbench.tasks.code import end_group
from specbench.tasks.scoring import Task
from specbench.workloads.prompt import Prompt, Workload

SECONDS = 120
MOST_BYTES = 1 << 16
"""Of its standard output, and of its standard error."""

_CONTRACT = (
    "It must print a score from 0 to 1, alone on its last line, or print nothing and end with 0 (right) or 1 (wrong, "
    "with nothing on its standard error)."
)


class _Ran(NamedTuple):
    code: int
    output: bytes
    error: bytes


def task_by_command(workload: Workload, command: str, seconds: float = SECONDS) -> Task:
    """Each output by a command, which may be run several times at once; what it started and left running is ended.

    It reads one line: {"id", "prompt" or "messages", "reference" (a list, null without), "output"}. A number from 0 to
    1 alone on the last line that it prints is the score; where it prints nothing, exit code 0 is right and 1 is wrong.
    With 1 it must then say nothing on its standard error: a program that crashes ends with 1 too.
    """
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise SpecbenchError(f"--score-command: no shell could split {command!r} ({error}).") from None
    if not argv:
        raise SpecbenchError("--score-command is empty: give a program that reads one JSON line.")
    return Task(workload, lambda prompt, output: _score(argv, prompt, output, seconds), f"the command {command}")


def _score(argv: list[str], prompt: Prompt, output: str, seconds: float) -> float:
    asked = {"prompt": prompt.prompt} if prompt.messages is None else {"messages": prompt.messages}
    answers = None if prompt.reference is None else prompt.reference.answers
    line = json.dumps({"id": prompt.id, **asked, "reference": answers, "output": output}, ensure_ascii=False)
    place = f'for prompt "{prompt.id}"'
    try:
        # Half of a surrogate pair becomes the escape that JSON has for it.
        ran = _run(argv, f"{line}\n".encode(errors="backslashreplace"), seconds)
    except TimeoutError:
        raise SpecbenchError(f"--score-command took more than {seconds:g} s {place}, and nothing was scored.") from None
    except OSError as error:
        raise SpecbenchError(f"--score-command: {argv[0]} does not start ({error.strerror}).") from error
    except OverflowError:
        raise SpecbenchError(
            f"--score-command printed more than {MOST_BYTES >> 10} KiB {place} and was ended. {_CONTRACT}"
        ) from None
    try:
        said = ran.output.decode().strip()
    except UnicodeDecodeError:
        raise SpecbenchError(
            f"--score-command printed {ran.output[:40]!r} {place}, which is not UTF-8. {_CONTRACT}"
        ) from None
    last = (said.splitlines() or [""])[-1]
    printed = _number(last)
    complaint = ran.error.decode(errors="replace").strip().splitlines()
    if ran.code not in (0, 1) or (ran.code == 1 and printed is None and complaint):
        why = (complaint or ["nothing on its standard error"])[-1]
        raise SpecbenchError(f"--score-command ended with exit code {ran.code} {place}: {why[:200]}. {_CONTRACT}")
    if not said:
        return float(ran.code == 0)
    if printed is None:
        raise SpecbenchError(f"--score-command printed {last[:80]!r} {place}, which is no score. {_CONTRACT}")
    if not 0 <= printed <= 1:
        raise SpecbenchError(f"--score-command printed the score {printed:g} {place}. A score is from 0 to 1.")
    return printed


def _run(argv: list[str], asked: bytes, seconds: float) -> _Ran:
    """Runs until the command itself ends. Raises TimeoutError; OverflowError where it says more than MOST_BYTES."""
    with tempfile.TemporaryFile() as question:
        question.write(asked)
        question.seek(0)
        with subprocess.Popen(
            argv, stdin=question, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        ) as process:
            try:
                return _watched(process, time.monotonic() + seconds)
            finally:
                end_group(process.pid)


def _watched(process: subprocess.Popen[bytes], until: float) -> _Ran:
    assert process.stdout is not None
    assert process.stderr is not None
    said = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as pipes:
        for pipe in said:
            pipes.register(pipe, selectors.EVENT_READ)
        while True:
            code = process.poll()  # before the pipes are looked at: what it printed last is in them by then
            ready = pipes.select(0.01 if code is None else 0)
            for key, _ in ready:
                part = os.read(key.fd, MOST_BYTES)
                said[key.fd] += part
                if not part:
                    pipes.unregister(key.fd)
                if len(said[key.fd]) > MOST_BYTES:
                    raise OverflowError
            if code is not None and not ready:
                output, error = said.values()
                return _Ran(code, bytes(output), bytes(error))
            if time.monotonic() > until:
                raise TimeoutError


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
