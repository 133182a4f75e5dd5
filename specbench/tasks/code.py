"""Runs a program that a model wrote: in a process of its own, with limits, and where possible without network."""

from __future__ import annotations

import functools
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 60
"""Of the clock. Processor time is what decides (`run_program.py`): on a busy machine ten seconds of it take longer."""
STOPS = ("\nclass ", "\ndef ", "\n#", "\nif ", "\nprint(")
"""Where a function that a model goes on with has ended (Chen et al., 2021, §3.1)."""

_RUNNER = Path(__file__).with_name("run_program.py")
_NO_NETWORK = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child")
_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)


def program(prompt: str | None, output: str, tests: str) -> str:
    """The prompt's beginning, the output's code and the tests, as one program.

    prompt: what the output goes on from; None for a chat. Of an output with a fenced block, that block is the code: it
    may go on with the function or write it anew.
    """
    fenced = _FENCED.search(output)
    if fenced:
        code = fenced[1]
    elif prompt is not None:
        code = output[: min((at for stop in STOPS if (at := output.find(stop)) >= 0), default=len(output))]
    else:
        code = output
    return f"{prompt or ''}{code}\n\n{tests}"


def runs_to_its_end(source: str, seconds: float = SECONDS) -> bool | None:
    """Whether the program reaches its last line within the limits of `run_program.py`; None where the clock stopped it.

    Its exit code alone says little: a program that calls sys.exit(0) in its first line has passed no test. So the
    runner leaves a proof after it; what can still fake one is told in `run_program.py`.
    """
    proof = f"{secrets.token_hex(16)}\n".encode()
    try:
        asked = proof + source.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: no Python source
        return False
    with tempfile.TemporaryDirectory(prefix="specbench-code-") as folder:
        left = Path(folder) / "proof"
        with subprocess.Popen(
            [*without_network(), sys.executable, "-I", "-B", str(_RUNNER), str(left)],
            cwd=folder,
            # Nothing of the caller's environment: it may hold keys.
            env={"PATH": os.defpath, "HOME": folder, "TMPDIR": folder, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                process.communicate(asked, timeout=seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                end_group(process.pid)
        return left.is_file() and left.read_bytes() == proof


@functools.cache
def without_network() -> tuple[str, ...]:
    """What to put before a command so that it has no network, and its children end with it; empty where it cannot be.

    It takes user namespaces, which many containers forbid.
    """
    if shutil.which(_NO_NETWORK[0]) is None:
        return ()
    tried = subprocess.run([*_NO_NETWORK, "true"], capture_output=True, check=False)
    return _NO_NETWORK if tried.returncode == 0 else ()


def end_group(pid: int) -> None:
    """Ends what is left of the process group that `pid` leads or led."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
