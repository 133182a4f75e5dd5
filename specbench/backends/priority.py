"""A server's priority, which is below that of the client that measures it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

_LOWEST = 19


def lower(pid: int, by: int) -> None:
    """Below ours. pid: of the leader of a session. Raises psutil.NoSuchProcess, ProcessLookupError.

    Linux shares out its cores among sessions first, by a priority of each session, and looks at that of processes only
    within one (autogroups: man 7 sched). In a session of its own a server would be every client's equal, and above one
    that itself is of lower priority.
    """
    psutil.Process(pid).nice(psutil.Process().nice() + by)  # its later threads inherit it
    with suppress(OSError):  # no Linux, no autogroups, no permission
        Path(f"/proc/{pid}/autogroup").write_text(str(min(_LOWEST, session_nice("self") + by)))


def session_nice(pid: int | str) -> int:
    """Of the session of a process; 0 for one that is in none. Raises OSError where there are no autogroups."""
    words = Path(f"/proc/{pid}/autogroup").read_text(encoding="ascii").split()  # such as: /autogroup-908 nice 0
    return int(words[-1]) if words else 0
