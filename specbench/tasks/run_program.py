"""`python -I run_program.py PROOF` runs the program on its standard input within limits, and then writes the proof.

The first line of the input is what to write. It imports nothing of specbench: it runs isolated.

No name and no frame's variable holds the proof while the program runs, so that looking through those of its callers
does not find it. That does not keep out a program that reads its own memory (ctypes, /proc/self/mem), or that fools the
tests themselves, as by a result that is equal to everything or by a trace function that jumps over them.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

LIMITS = {
    resource.RLIMIT_CPU: 10,
    resource.RLIMIT_AS: 1 << 30,
    resource.RLIMIT_FSIZE: 1 << 24,
    resource.RLIMIT_NPROC: 1_024,
    resource.RLIMIT_CORE: 0,
}
"""Seconds of processor time, bytes of memory and of a file, processes of this user, and no core file."""


def _ran(source: str) -> str:
    exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})
    return ""


if __name__ == "__main__":
    for kind, most in LIMITS.items():
        hard = resource.getrlimit(kind)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (limit, limit))
    # The proof is read before the program runs and waits on the interpreter's stack alone.
    Path(sys.argv[1]).write_text(sys.stdin.readline() + _ran(sys.stdin.read()))
