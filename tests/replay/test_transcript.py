from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.replay.dialect import VLLM
from specbench.replay.records import RequestAcceptance, RequestTrace
from specbench.replay.request import RequestSpec
from specbench.replay.transcript import Transcript

SPEC = RequestSpec(index=3, prompt_id="p3", max_tokens=16, prompt="Olá", category="chat", seed=5)


def encode(*events: dict[str, Any] | str) -> bytes:
    bodies = [event if isinstance(event, str) else json.dumps(event, ensure_ascii=False) for event in events]
    return "".join(f"data: {body}\n\n" for body in bodies).encode()


def read(*pieces: bytes) -> RequestTrace:
    """Piece i arrives at second i + 1."""
    transcript = Transcript(VLLM)
    for time, piece in enumerate(pieces, start=1):
        transcript.feed(piece, float(time))
    return transcript.trace(SPEC, scheduled=0.25, sent=0.5, finished=float(len(pieces)))


def said(text: str, ids: list[int] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "finish_reason": finish, **({} if ids is None else {"token_ids": ids})}
    return {"choices": [choice], **more}


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


FULL = [
    {"choices": [{"index": 0, "text": "Bom", "token_ids": [1], "prompt_token_ids": [8, 9]}]},
    said(" dia ☀️", [2, 3, 4]),
    said("", [5], "stop"),
    {
        "choices": [],
        **usage(2, 5),
        "metrics": {
            "speculative_decoding": {
                "num_spec_steps": 2,
                "num_draft_tokens": 6,
                "num_accepted_draft_tokens": 2,
                "per_step_drafted": [4, 2],
                "per_step_accepted": [2, 0],
            }
        },
    },
    "[DONE]",
]


def test_a_whole_stream_becomes_a_trace():
    assert read(*(encode(event) for event in FULL)) == RequestTrace(
        index=3,
        prompt_id="p3",
        category="chat",
        scheduled=0.25,
        sent=0.5,
        finished=5.0,
        chunk_times=(1.0, 2.0, 3.0),
        chunk_tokens=(1, 3, 1),
        prompt_tokens=2,
        output_tokens=5,
        prompt_token_ids=(8, 9),
        token_ids=(1, 2, 3, 4, 5),
        text="Bom dia ☀️",
        finish_reason="stop",
        error=None,
        seed=5,
        acceptance=RequestAcceptance(2, 6, 2, (4, 2), (2, 0)),
    )


def test_events_that_one_read_brings_have_one_time():
    trace = read(encode(*FULL[:2]), encode(*FULL[2:]))
    assert (trace.chunk_times, trace.chunk_tokens) == ((1.0, 1.0, 2.0), (1, 3, 1))


@settings(deadline=None)
@given(st.data())
def test_however_the_bytes_are_cut_the_tokens_the_text_and_the_acceptance_are_the_same(data: st.DataObject):
    stream = encode(*FULL)
    places = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    trace = read(*(stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)))
    assert (trace.token_ids, trace.text, trace.output_tokens) == ((1, 2, 3, 4, 5), "Bom dia ☀️", 5)
    assert trace.acceptance == RequestAcceptance(2, 6, 2, (4, 2), (2, 0))
    assert (trace.chunk_tokens, trace.error) == ((1, 3, 1), None)
    assert list(trace.chunk_times) == sorted(trace.chunk_times)


def test_without_ids_tokens_are_counted_from_continuous_usage():
    trace = read(
        encode(said("a", **usage(2, 1))), encode(said("bcd", finish="length", **usage(2, 4))), encode("[DONE]")
    )
    assert (trace.chunk_tokens, trace.output_tokens, trace.token_ids, trace.prompt_tokens) == ((1, 3), 4, None, 2)


def test_chat_deltas_count_what_a_reasoning_model_thinks():
    def delta(**fields: str) -> dict[str, Any]:
        return {"choices": [{"delta": fields, "finish_reason": None}]}

    trace = read(
        encode(delta(role="assistant", content="")),
        encode(delta(reasoning_content="hm")),
        encode(delta(reasoning="hm")),
        encode(delta(content="ok")),
        encode({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        encode({"choices": [], **usage(1, 9)}, "[DONE]"),
    )
    assert trace.text == "hmhmok"
    assert (trace.chunk_tokens, trace.chunk_times) == ((3, 3, 3), (2.0, 3.0, 4.0))
    assert trace.error is None


def test_the_call_of_a_tool_is_output():
    def call(**function: str) -> dict[str, Any]:
        return {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": function}]}, "finish_reason": None}]}

    trace = read(
        encode(call(name="weather", arguments="")),
        encode(call(arguments='{"city": "Graz"}')),
        encode({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        encode({"choices": [], **usage(1, 9)}, "[DONE]"),
    )
    assert trace.text == 'weather{"city": "Graz"}'
    assert trace.output_tokens == 9


def test_a_server_without_acceptance_reports_none_rather_than_zero():
    assert read(encode(said("a", [1], "stop"), "[DONE]")).acceptance is None


def test_acceptance_of_an_unknown_shape_is_not_reported_but_the_answer_counts():
    trace = read(encode(said("a", [1], "stop", metrics={"speculative_decoding": {"steps": 3}}), "[DONE]"))
    assert (trace.acceptance, trace.error, trace.output_tokens) == (None, None, 1)


def test_an_error_in_mid_stream_keeps_what_came_before():
    trace = read(encode(said("a", [1, 2])), encode({"error": {"message": "CUDA out of memory", "code": 500}}, "[DONE]"))
    assert trace.error == "the server failed in mid-stream: CUDA out of memory"
    assert (trace.output_tokens, trace.text, trace.finish_reason) == (2, "a", None)


def test_a_stream_that_ends_early_is_an_error():
    error = read(encode(said("a", [1, 2])), b'data: {"choi').error
    assert error == "the stream ended early, after 2 tokens and without a finish reason"


def test_a_stream_that_cannot_be_counted_is_an_error():
    trace = read(encode(said("a", finish="stop"), "[DONE]"))
    assert trace.error == "the server sent neither token ids nor usage, so its tokens cannot be counted."
    assert trace.text == "a"


@pytest.mark.parametrize(
    "event",
    [
        "{",
        "[]",
        "7",
        "null",
        '{"choices": 1}',
        '{"choices": [7]}',
        '{"choices": [{"text": 1}]}',
        '{"usage": {"completion_tokens": "3"}}',
        '{"choices": [{"text": "a", "token_ids": 5}]}',
    ],
)
def test_an_event_that_cannot_be_read_is_named_and_does_not_raise(event: str):
    trace = read(encode(said("a", [1])), encode(event), encode(said("b", [2], "stop"), "[DONE]"))
    assert trace.error == f"the server sent an event that cannot be read: {event}"
    assert trace.token_ids == (1, 2)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_garbage_never_raises(garbage: bytes):
    assert read(b"data: " + garbage + b"\n\n").error


def test_ids_that_disagree_with_usage_are_logged(caplog: pytest.LogCaptureFixture):
    read(encode(said("a", [1], "stop"), {"choices": [], **usage(1, 4)}, "[DONE]"))
    assert "4 tokens in usage but sent 1 token ids" in caplog.text
