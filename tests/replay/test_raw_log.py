from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specbench.replay.raw_log import RawEvent, RawLog, read_raw_log

EVENTS = st.lists(st.builds(RawEvent, st.integers(0, 99), st.floats(0, 1e6), st.binary(max_size=30)), max_size=5)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(EVENTS)
def test_every_byte_and_time_survives(tmp_path: Path, events: list[RawEvent]):
    path = tmp_path / "events.jsonl"
    with RawLog(path) as log:
        for event in events:
            log.write(event)
    assert list(read_raw_log(path)) == events


def test_the_log_is_readable_text(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    with RawLog(path) as log:
        log.write(RawEvent(0, 1.5, b"data: {}\n\n"))
    assert path.read_text() == '[0,1.5,"data: {}\\n\\n"]\n'
