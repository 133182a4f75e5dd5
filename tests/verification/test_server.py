"""Long waits are told, with how long the rest takes."""

from __future__ import annotations

import pytest

from specbench.verification import server


def test_every_so_often_a_sentence_says_what_is_done_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 15.0, 30.0, 45.0, 60.0])
    monkeypatch.setattr(server.time, "monotonic", lambda: next(clock))
    said: list[str] = []
    told = server._told(said.append, 4, "outputs")
    for _ in range(4):
        told()
    assert said == ["  2 of 4 outputs, about 30 s to go"]
