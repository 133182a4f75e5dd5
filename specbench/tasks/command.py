"""A command of the user's own that scores outputs: one JSON object on its standard input, the score as its answer."""

from __future__ import annotations

import json
import shlex
import subprocess

from specbench.errors import SpecbenchError
from specbench.tasks.scoring import Task
from specbench.workloads.prompt import Prompt, Workload

SECONDS = 120


def task_by_command(workload: Workload, command: str, seconds: float = SECONDS) -> Task:
    """Each output by a command, which may be run several times at once.

    It reads one line: {"id", "prompt" or "messages", "reference" (a list, null without), "output"}. A number from 0 to
    1 alone on the last line that it prints is the score; without one, exit code 0 is right and 1 is wrong. With 1 it
    must say nothing on its standard error: a program that crashes ends with 1 too.
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
    try:
        ran = subprocess.run(argv, input=f"{line}\n", capture_output=True, text=True, timeout=seconds, check=False)
    except OSError as error:
        raise SpecbenchError(f"--score-command: {argv[0]} does not start ({error.strerror}).") from error
    except subprocess.TimeoutExpired:
        raise SpecbenchError(
            f'--score-command took more than {seconds:g} s for prompt "{prompt.id}", and nothing was scored.'
        ) from None
    printed = _printed(ran.stdout)
    complaint = ran.stderr.strip().splitlines()
    if ran.returncode not in (0, 1) or (ran.returncode == 1 and printed is None and complaint):
        said = (complaint or ["nothing on its standard error"])[-1]
        raise SpecbenchError(
            f'--score-command ended with exit code {ran.returncode} for prompt "{prompt.id}": {said[:200]}. '
            "It must end with 0 (right) or 1 (wrong, with nothing on its standard error), or print a score from 0 to 1."
        )
    if printed is None:
        return float(ran.returncode == 0)
    if not 0 <= printed <= 1:
        raise SpecbenchError(
            f'--score-command printed the score {printed:g} for prompt "{prompt.id}". A score is from 0 to 1.'
        )
    return printed


def _printed(text: str) -> float | None:
    """The number on the last line, if that is one."""
    try:
        return float((text.strip().splitlines() or [""])[-1])
    except ValueError:
        return None
