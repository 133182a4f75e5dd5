"""The run's store: nothing changed on the way to disk and back, nothing half-written, nothing lost by compaction."""

import dataclasses
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specbench.acceptance import AcceptanceCounts
from specbench.backends.base import EngineCounters
from specbench.errors import SpecbenchError
from specbench.replay.records import RequestAcceptance, RequestTrace
from specbench.speculation import Speculation
from specbench.store import cell_file
from specbench.store.measurement import Cell, Measurement
from specbench.store.run import RunStore
from specbench.telemetry.sample import Sample

small = st.integers(0, 2**15 - 1)
times = st.floats(0, 1e6)


def tuples(values: st.SearchStrategy, **sizes: int) -> st.SearchStrategy:  # type: ignore[type-arg]
    return st.lists(values, max_size=5, **sizes).map(tuple)


acceptances = st.builds(
    RequestAcceptance, steps=small, drafted=st.none() | small, accepted=small,
    per_step_drafted=st.none() | tuples(small), per_step_accepted=st.none() | tuples(small),
    by_position=st.none() | tuples(small),
)  # fmt: skip
traces = st.builds(
    RequestTrace,
    index=small, prompt_id=st.text(), category=st.none() | st.text(), scheduled=times, sent=times, finished=times,
    chunk_times=tuples(times), chunk_tokens=tuples(small), prompt_tokens=st.none() | small, output_tokens=small,
    prompt_token_ids=st.none() | tuples(small), token_ids=st.none() | tuples(small),
    text=st.text(), finish_reason=st.none() | st.text(), error=st.none() | st.text(),
    seed=st.none() | st.integers(-(2**63), 2**63 - 1), acceptance=st.none() | acceptances,
)  # fmt: skip
counts = st.builds(
    AcceptanceCounts, steps=small, drafted=small, accepted=small,
    drafts=st.none() | small, by_position=st.none() | tuples(small),
)  # fmt: skip
counters = st.builds(
    EngineCounters, acceptance=st.none() | counts, generated_tokens=st.none() | small,
    phase_seconds=st.none() | st.dictionaries(st.sampled_from(["draft", "verify"]), times),
)  # fmt: skip
samples = st.builds(
    Sample, time=times, source=st.sampled_from(["host", "gpu0"]), memory_bytes=st.none() | st.integers(0, 2**40),
    utilization_percent=st.none() | times, power_watts=st.none() | times, sm_clock_mhz=st.none() | times,
    throttle=st.none() | st.sampled_from(["", "sw_power_cap+hw_slowdown"]), dram_activity_percent=st.none() | times,
)  # fmt: skip
measurements = st.builds(
    Measurement,
    id=st.just("chat-ngram-g4-b2-r0k0"), launch=st.text(),
    cell=st.just(Cell("reference", "demo", "chat", Speculation("ngram", 4), 2, 0.0)),
    replicate=small, repeat=small, status=st.sampled_from(["ok", "failed"]), started_at=st.text(),
    started=times, finished=times, error=st.none() | st.text(), log_tail=st.none() | st.text(),
    client_lag_p99=st.none() | times, counters=st.none() | counters,
    traces=tuples(traces), telemetry=tuples(samples),
)  # fmt: skip


def a_measurement(id: str = "chat-none-b1-r0k0", **changes: object) -> Measurement:
    trace = RequestTrace(
        0, "chat-001", None, 0.0, 0.0, 1.0, (0.5, 1.0), (1, 2), 3, 3, None, (5, 6, 7), "a b c", "length", None, 0, None
    )
    measurement = Measurement(
        id=id, launch="none-r0", cell=Cell("reference", "demo", "chat", Speculation(), 1, 0.0),
        replicate=0, repeat=0, status="ok", started_at="2026-01-01T00:00:00+00:00", finished=1.0,
        traces=(trace,), telemetry=(Sample(0.1, "host", 2**30, 99.0),),
    )  # fmt: skip
    return dataclasses.replace(measurement, **changes)


@given(measurement=measurements)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
def test_a_measurement_survives_the_disk_unchanged(
    tmp_path_factory: pytest.TempPathFactory, measurement: Measurement
) -> None:
    path = tmp_path_factory.mktemp("cell") / "cell.parquet"
    cell_file.write(path, measurement)
    assert cell_file.read(path) == measurement


def test_telemetry_of_an_earlier_version_lacks_columns_and_is_read_all_the_same() -> None:
    measurement = a_measurement()
    record = cell_file.measurement_to_json(measurement)
    assert record["telemetry"].keys() == {
        "time",
        "source",
        "memory_bytes",
        "utilization_percent",
    }  # empty ones left out
    earlier = {**record, "telemetry": {**record["telemetry"], "power_watts": [None], "sm_clock_mhz": [None]}}
    assert cell_file.measurement_from_json(earlier, []).telemetry == measurement.telemetry


def test_compaction_loses_nothing_and_removes_the_cell_files(tmp_path: Path) -> None:
    store = RunStore.create(tmp_path, {"run": "x"})
    taken = [a_measurement(f"chat-none-b1-r{r}k0", started_at=f"2026-01-0{r + 1}") for r in range(3)]
    failed = a_measurement("chat-ngram-g4-b1-r0k0", started_at="2026-01-09", status="failed", traces=(), error="died")
    for measurement in (*taken, failed):
        store.write(measurement)
    store.compact()
    assert RunStore.open(tmp_path).measurements() == [*taken, failed]
    assert list((tmp_path / "cells").iterdir()) == []
    assert pq.read_table(tmp_path / "measurements.parquet")["status"].to_pylist() == ["ok"] * 3 + ["failed"]
    assert pq.read_table(tmp_path / "telemetry.parquet").num_rows == 4


def test_a_compaction_interrupted_before_the_cell_files_are_gone_counts_nothing_twice(tmp_path: Path) -> None:
    store = RunStore.create(tmp_path, {"run": "x"})
    store.write(a_measurement())
    store.compact()
    store.write(a_measurement())
    assert store.measurements() == [a_measurement()]


def test_a_file_that_was_being_written_when_the_run_was_killed_is_not_seen(tmp_path: Path) -> None:
    store = RunStore.create(tmp_path, {"run": "x"})
    store.write(a_measurement())
    (tmp_path / "cells" / ".chat-none-b2-r0k0.parquet.123.partial").write_bytes(b"PAR1 half of it")
    assert [m.id for m in store.measurements()] == ["chat-none-b1-r0k0"]


def test_a_damaged_cell_is_named_with_the_way_out(tmp_path: Path) -> None:
    store = RunStore.create(tmp_path, {"run": "x"})
    (tmp_path / "cells" / "bad.parquet").write_bytes(b"not parquet")
    with pytest.raises(SpecbenchError, match=r"bad\.parquet: not a specbench measurement.*Delete it"):
        store.measurements()


def test_a_directory_with_a_run_is_not_written_over(tmp_path: Path) -> None:
    RunStore.create(tmp_path, {"run": "x"})
    with pytest.raises(SpecbenchError, match=r"already holds a run\. Continue it with --resume"):
        RunStore.create(tmp_path, {"run": "y"})


def test_a_directory_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match=r"is not a run of specbench sweep: it holds no manifest\.json"):
        RunStore.open(tmp_path)


@pytest.mark.parametrize("name", ["requests.parquet", "measurements.parquet"])
def test_a_damaged_table_is_told(tmp_path: Path, name: str) -> None:
    run = RunStore.create(tmp_path / "run", {"config": {}})
    run.write(Measurement("m", "l", Cell("reference", "demo", "chat", Speculation(), 1, 0.0), 0, 0, "ok", "2030"))
    run.compact()
    (run.path / name).write_bytes((run.path / name).read_bytes()[:200])
    with pytest.raises(SpecbenchError, match="its tables cannot be read"):
        RunStore.open(run.path).measurements()


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"run": "r"}'])
def test_a_damaged_manifest_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(SpecbenchError, match=r"manifest\.json: not "):
        _ = RunStore.open(tmp_path).manifest


def test_what_a_launch_said_may_be_damaged_too(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path / "run", {"config": {}})
    (run.path / "launches" / "none-r0.json").write_text("[]")
    with pytest.raises(SpecbenchError, match=r"none-r0\.json: not the JSON that was written there"):
        run.launches()


def test_a_cell_file_without_its_record_is_told(tmp_path: Path) -> None:
    path = tmp_path / "cell.parquet"
    table = cell_file.request_table([]).replace_schema_metadata({b"specbench.measurement": b"{}"})
    pq.write_table(table, path)
    with pytest.raises(SpecbenchError, match=r"not a specbench measurement .* Delete it and run with --resume"):
        cell_file.read(path)


def test_a_cell_that_an_earlier_version_wrote_without_positions_is_still_read(tmp_path: Path) -> None:
    cell_file.write(tmp_path / "new.parquet", a_measurement())
    table = pq.read_table(tmp_path / "new.parquet")
    pq.write_table(table.drop_columns(["by_position"]), tmp_path / "old.parquet")
    assert cell_file.read(tmp_path / "old.parquet") == a_measurement()
