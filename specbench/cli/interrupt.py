"""Ending a measurement from outside without leaving a server behind."""

from __future__ import annotations

import asyncio
import contextlib
import signal


def end_as_with_ctrl_c() -> None:
    """SIGTERM and SIGHUP cancel the running task, so that every context manager closes. Under nohup SIGHUP does not."""
    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(NotImplementedError):
        for signum in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signum) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(signum, task.cancel)
