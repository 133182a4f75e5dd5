"""A server that runs already: on this machine or not, and who listens for it."""

from __future__ import annotations

import os
import socket

import pytest

from specbench.backends.attach.server import is_local, listening_pid


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
        ("http://localhost:8000", True),
        ("https://api.example.com", False),
        ("http://10.0.0.5:8000", False),
        ("http://127.0.0.1.example.com:8000", False),
    ],
)
def test_only_the_loopback_device_is_this_machine(url: str, local: bool) -> None:
    assert is_local(url) is local


def test_the_process_that_listens_is_found_and_no_other() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert listening_pid(f"http://127.0.0.1:{port}") is None  # bound, not listening
        listener.listen()
        assert listening_pid(f"http://127.0.0.1:{port}") == os.getpid()
        assert listening_pid(f"http://example.com:{port}") is None
    assert listening_pid(f"http://127.0.0.1:{port}") is None
