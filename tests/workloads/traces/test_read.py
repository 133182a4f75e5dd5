"""Traces become traffic: of every format, with its unit checked, in order, sessions and failures told."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.workloads.traces import FORMATS, read_trace, read_traffic, rows


def lines(*entries: dict[str, object]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def lengths(**fields: object) -> dict[str, object]:
    return {"input_length": 800, "output_length": 20, **fields}


EXAMPLES = {
    "azure": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "2023-11-16 18:17:03.9799600,4808,10\r\n"
        "2023-11-16 18:17:04.2299600,3180,8\r\n"
        "2023-11-16 18:17:06.9799600,110,27\r\n"
    ),
    "burstgpt": (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,a,1.5,ChatGPT,4808,10,4818,Conversation log\n"
        "5.25,,2,GPT-4,3180,8,3188,API log\n"
        "6,b,0,GPT-4,500,0,500,Conversation log\n"
        "8,a,2,ChatGPT,110,27,137,Conversation log\n"
    ),
    "mooncake": lines(
        {"timestamp": 0, "input_length": 4808, "output_length": 10, "hash_ids": [0, 1]},
        {"timestamp": 250, "input_length": 3180, "output_length": 8, "hash_ids": [7]},
        {"timestamp": 3000, "input_length": 110, "output_length": 27, "hash_ids": [0, 1, 2]},
    ),
    "aiperf": lines(
        {"session_id": "a", "timestamp": 0, "input_length": 4808, "output_length": 10},
        {"session_id": "b", "timestamp": 250, "input_length": 3180, "output_length": 8},
        {"session_id": "a", "delay": 3000, "input_length": 110, "output_length": 27},
    ),
    "guidellm": lines(
        {"timestamp": 17.0, "input_length": 4808, "output_length": 10},
        {"timestamp": 17.25, "input_length": 3180, "output_length": 8},
        {"timestamp": 20.0, "input_length": 110, "output_length": 27},
    ),
    "vllm": lines(
        {"request_id": "0", "input_toks": 4808, "output_toks": 10, "arrival_time": 1764500000.5, "queued_ts": 3.1},
        {"request_id": "1", "input_toks": 3180, "output_toks": 8, "arrival_time": 1764500000.75, "queued_ts": 3.4},
        {"request_id": "2", "input_toks": 110, "output_toks": 27, "arrival_time": 1764500003.5, "queued_ts": 6.1},
    ),
    "log": (
        "timestamp,prompt_tokens,output_tokens,session_id\n"
        "2026-11-30T10:00:00Z,4808,10,a\n2026-11-30T11:00:00.25+01:00,3180,8,b\n\n2026-11-30T10:00:03Z,110,27,a\n"
    ),
}
WITH_SESSIONS = {"burstgpt", "mooncake", "aiperf", "log"}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("packed", [False, True])
def test_the_same_requests_in_every_format(name: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("trace.gz" if packed else "trace")
    content = EXAMPLES[name].encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    trace = read_trace(path, "guidellm" if name == "guidellm" else None)
    assert trace.format == name
    assert trace.unit == (None if name in ("azure", "log") else "ms" if name in ("mooncake", "aiperf") else "s")
    assert (trace.left_out, trace.delayed) == (int(name == "burstgpt"), int(name == "aiperf"))
    traffic = trace.traffic
    np.testing.assert_allclose(traffic.arrival, [0, 0.25, 3], atol=1e-6)
    assert traffic.prompt_tokens.tolist() == [4808, 3180, 110]
    assert traffic.output_tokens.tolist() == [10, 8, 27]
    assert (traffic.arrival.dtype, traffic.prompt_tokens.dtype) == (np.float64, np.int32)
    if name in WITH_SESSIONS:
        assert traffic.session is not None
        assert traffic.session[0] == traffic.session[2] != traffic.session[1]
    else:
        assert traffic.session is None


def test_parquet_is_read_as_well_and_rows_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    entries = [lengths(timestamp=t, hash_ids=[t]) for t in (3000, 0, 250)]
    pq.write_table(pa.Table.from_pylist(entries), path)
    traffic = read_traffic(path)
    np.testing.assert_allclose(traffic.arrival, [0, 0.25, 3])
    assert traffic.session is not None
    assert len(set(traffic.session.tolist())) == 3


def test_dates_of_parquet_and_blank_lines_before_a_table_are_read(tmp_path: Path) -> None:
    dated, table, broken = tmp_path / "trace.parquet", tmp_path / "trace.csv", tmp_path / "trace.csv.gz"
    entries = [{"timestamp": datetime(2026, 1, 1, 0, 0, t), "prompt_tokens": 5, "output_tokens": 3} for t in (0, 4)]
    pq.write_table(pa.Table.from_pylist(entries), dated)
    table.write_text("\n\ntimestamp,prompt_tokens,output_tokens\n1,5,3\n\n5,5,3\n")
    for path in (dated, table):
        assert read_traffic(path).arrival.tolist() == [0, 4]
    table.write_text(table.read_text() + "8,few,3\n")
    with pytest.raises(SpecbenchError, match=r"trace\.csv:7: prompt_tokens"):
        read_traffic(table)
    broken.write_bytes(gzip.compress(b"{}")[:10] + b"\xff" * 20)
    with pytest.raises(SpecbenchError, match="is not whole, or not packed by gzip"):
        read_traffic(broken)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            lines(lengths(timestamp=0), lengths(timestamp=1)),
            r"--format mooncake \(milliseconds\) or .*guidellm \(seconds\)",
        ),
        ("a,b\n1,2\n", r"no trace of a known format.*azure \(contexttokens, generatedtokens, timestamp\)"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nsoon,1,2\n", r"trace:2: no arrival time \('soon'\)"),
        ("Timestamp,Request tokens,Response tokens\n1,2,3\n\n2,few,3\n", "trace:4: request tokens must be a number"),
        ("Timestamp,Request tokens,Response tokens\n1,2,0\n", "no request in it has both prompt and output tokens"),
        ("timestamp,Timestamp,prompt_tokens,output_tokens\n1,1,2,3\n", "two columns are called 'timestamp'"),
        (lines(lengths(timestamp=0, session_id=["a"])), "trace:1: session_id must be a string or a number; got a list"),
        (lines(lengths(timestamp=0, hash_ids=[1])) + "[]\n", "trace:2: .*no JSON object"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(SpecbenchError, match=said) as caught:
        read_trace(path)
    assert "\n" not in str(caught.value)


def test_a_format_or_unit_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(EXAMPLES["azure"])
    with pytest.raises(SpecbenchError, match=r"--format: 'paper' is no format of traces\. Choose from: azure, "):
        read_trace(path, "paper")
    with pytest.raises(SpecbenchError, match="no field 'request tokens', which a trace of format burstgpt has"):
        read_trace(path, "burstgpt")
    with pytest.raises(SpecbenchError, match="--time-unit: 'days' is no unit"):
        read_trace(path, time_unit="days")
    with pytest.raises(SpecbenchError, match=r"cannot read the trace .*nowhere\.csv"):
        read_trace(tmp_path / "nowhere.csv")


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**4)), min_size=1, max_size=40
    ).filter(lambda rows: any(p and o for _, p, o in rows)),
    st.integers(1, 50),
)
def test_whatever_the_chunks_a_table_and_lines_hold_the_same_traffic(tmp_path_factory, requests, chunk: int) -> None:
    folder = tmp_path_factory.mktemp("t")
    table, objects = folder / "table", folder / "objects"
    table.write_text("timestamp,prompt_tokens,output_tokens\n" + "".join(f"{t},{p},{o}\n" for t, p, o in requests))
    objects.write_text(lines(*({"timestamp": t, "prompt_tokens": p, "output_tokens": o} for t, p, o in requests)))
    kept = sorted((r for r in requests if r[1] and r[2]), key=lambda r: r[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "TABLE_ROWS", chunk)
        patch.setattr(rows, "OBJECT_ROWS", chunk)
        for path in (table, objects):
            trace = read_trace(path, time_unit="s")
            assert trace.left_out == len(requests) - len(kept)
            assert trace.traffic.arrival.tolist() == [float(t - kept[0][0]) for t, _, _ in kept]
            assert trace.traffic.prompt_tokens.tolist() == [p for _, p, _ in kept]
            assert trace.traffic.output_tokens.tolist() == [o for _, _, o in kept]
