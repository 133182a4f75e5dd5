from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.wire.requests import COMPLETION_MAX_TOKENS, ChatRequest, CompletionRequest, parse
from specbench.wire.service import GenerationRequest, RequestError

USER = [{"role": "user", "content": "Olá"}]


def completion(**fields: Any) -> CompletionRequest:
    return parse(CompletionRequest, json.dumps({"prompt": "Olá", **fields}).encode())


def chat(**fields: Any) -> ChatRequest:
    return parse(ChatRequest, json.dumps({"messages": USER, **fields}).encode())


def test_a_completion_takes_every_documented_field():
    body = completion(
        model="demo",
        max_tokens=7,
        temperature=0,
        top_p=0.9,
        top_k=40,
        seed=-1,
        stop=["\n\n", "END"],
        stop_token_ids=[2],
        ignore_eos=True,
        logprobs=5,
        stream=True,
        stream_options={"include_usage": True, "continuous_usage_stats": True},
        return_token_ids=True,
        n=1,
        user="someone",
    )
    assert body.generation() == GenerationRequest(
        prompt="Olá",
        max_tokens=7,
        temperature=0.0,
        top_p=0.9,
        top_k=40,
        seed=-1,
        stop=("\n\n", "END"),
        stop_token_ids=(2,),
        ignore_eos=True,
        logprobs=5,
    )


def test_defaults_are_those_of_openai():
    assert completion().generation() == GenerationRequest(prompt="Olá", max_tokens=COMPLETION_MAX_TOKENS)
    assert chat().generation() == GenerationRequest(messages=tuple(USER))


def test_a_prompt_may_be_token_ids():
    assert completion(prompt=[5, 0, 7]).generation().prompt == (5, 0, 7)


def test_null_means_absent_and_unknown_fields_are_ignored():
    body = completion(temperature=None, stop=None, stream_options=None, frobnicate=3, guided_regex="a+")
    assert body.generation() == completion().generation()


@pytest.mark.parametrize(
    "neutral", [{"echo": False}, {"presence_penalty": 0.0}, {"logit_bias": {}}, {"response_format": {"type": "text"}}]
)
def test_unsupported_fields_pass_at_their_neutral_value(neutral: dict[str, Any]):
    assert completion(**neutral).generation() == completion().generation()


def test_minus_one_keeps_the_whole_vocabulary():
    assert completion(top_k=-1).generation().top_k == 0


def test_text_parts_are_joined_by_line_feeds():
    parts = [{"type": "text", "text": "um"}, {"type": "text", "text": "dois"}]
    assert chat(messages=[{"role": "user", "content": parts}]).generation().messages == (
        {"role": "user", "content": "um\ndois"},
    )


def test_chat_options_reach_the_service():
    request = chat(
        max_tokens=9, max_completion_tokens=5, logprobs=True, top_logprobs=3, chat_template_kwargs={"thinking": False}
    ).generation()
    assert (request.max_tokens, request.logprobs, request.chat_template_kwargs) == (5, 3, {"thinking": False})
    assert chat(logprobs=True).generation().logprobs == 0


REFUSED_COMPLETIONS = [
    ({"prompt": ""}, "prompt", "must not be empty"),
    ({"prompt": []}, "prompt", "must not be empty"),
    ({"prompt": ["a", "b"]}, "prompt", "one prompt"),
    ({"prompt": [[1, 2]]}, "prompt", "one prompt"),
    ({"prompt": [1, -2]}, "prompt", "got -2"),
    ({"prompt": [1, 2.5]}, "prompt", "got 2.5"),
    ({"prompt": [1, True]}, "prompt", "got True"),
    ({"prompt": {"text": "a"}}, "prompt", "a string or a list of token ids"),
    ({"prompt": None}, "prompt", "missing"),
    ({"max_tokens": 0}, "max_tokens", "got 0"),
    ({"max_tokens": "7"}, "max_tokens", "got '7'"),
    ({"max_tokens": 1.5}, "max_tokens", "got 1.5"),
    ({"temperature": -0.1}, "temperature", "got -0.1"),
    ({"temperature": 2.1}, "temperature", "got 2.1"),
    ({"temperature": True}, "temperature", "got True"),
    ({"top_p": 0}, "top_p", "greater than 0"),
    ({"top_p": 1.01}, "top_p", "less than or equal to 1"),
    ({"top_k": -2}, "top_k", "got -2"),
    ({"seed": 2**63}, "seed", f"got {2**63}"),
    ({"stop": ""}, "stop", "non-empty"),
    ({"stop": ["a", 1]}, "stop", "non-empty"),
    ({"stop_token_ids": [-1]}, "stop_token_ids", "stop_token_ids[0]"),
    ({"logprobs": 21}, "logprobs", "got 21"),
    ({"logprobs": True}, "logprobs", "got True"),
    ({"n": 2}, "n", "got 2"),
    ({"stream": "yes"}, "stream", "got 'yes'"),
    ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options", "stream_options.include_usage"),
    ({"stream_options": {"include_usage": True}}, None, "stream_options needs stream"),
    ({"echo": True}, None, "echo is not supported"),
    ({"chat_template": ""}, None, "chat_template is not supported"),
    ({"min_tokens": 10**30}, None, "min_tokens is not supported"),
    ({"max_tokens": -(10**30)}, "max_tokens", "greater than or equal to 1"),
    ({"frequency_penalty": 0.5}, None, "frequency_penalty is not supported"),
    ({"response_format": {"type": "json_object"}}, None, "response_format is not supported"),
]


@pytest.mark.parametrize(("fields", "param", "reason"), REFUSED_COMPLETIONS, ids=lambda value: str(value)[:50])
def test_a_completion_is_refused_with_field_and_reason(fields: dict[str, Any], param: str | None, reason: str):
    with pytest.raises(RequestError) as refusal:
        completion(**fields)
    assert refusal.value.status == 400
    assert refusal.value.param == param
    assert reason in str(refusal.value)


REFUSED_CHATS = [
    ({"messages": []}, "messages", "at least 1"),
    ({"messages": "Olá"}, "messages", "messages must be a valid array"),
    ({"messages": [{"role": "user"}]}, "messages", "messages[0].content is missing"),
    ({"messages": [*USER, {"content": "a"}]}, "messages", "messages[1].role is missing"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "only text"),
    ({"top_logprobs": 2}, None, "top_logprobs needs logprobs"),
    ({"max_completion_tokens": 0}, "max_completion_tokens", "got 0"),
    ({"tools": [{"type": "function"}]}, None, "tools is not supported"),
    ({"chat_template": "{{ 1 / 0 }}"}, None, "chat_template is not supported"),
]


@pytest.mark.parametrize(("fields", "param", "reason"), REFUSED_CHATS, ids=lambda value: str(value)[:50])
def test_a_chat_is_refused_with_field_and_reason(fields: dict[str, Any], param: str | None, reason: str):
    with pytest.raises(RequestError) as refusal:
        chat(**fields)
    assert (refusal.value.status, refusal.value.param) == (400, param)
    assert reason in str(refusal.value)


def test_every_problem_is_named_at_once():
    with pytest.raises(RequestError, match=r"temperature .*; top_p "):
        completion(temperature=9, top_p=9)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b'{"prompt": "a"', b"[1, 2]", b"null", b'{"prompt": NaN}'])
def test_a_body_that_is_no_json_object_is_refused(body: bytes):
    with pytest.raises(RequestError, match=r"JSON|prompt"):
        parse(CompletionRequest, body)


TEXT = st.text("aé1", max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(CompletionRequest.model_fields)), JSON, max_size=5))
def test_any_json_is_either_read_or_refused(fields: dict[str, Any]):
    with suppress(RequestError):
        assert parse(CompletionRequest, json.dumps(fields).encode()).generation().prompt
