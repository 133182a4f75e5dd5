from __future__ import annotations

from specbench.replay.request import RequestSpec

MESSAGES = ({"role": "user", "content": "Olá"},)


def test_a_chat_goes_to_the_chat_endpoint_and_a_prompt_to_completions():
    assert RequestSpec(0, "a", 8, messages=MESSAGES).path == "/v1/chat/completions"
    assert RequestSpec(0, "a", 8, prompt=(1, 2)).path == "/v1/completions"


def test_neutral_options_are_left_out_because_some_engines_refuse_them():
    assert RequestSpec(0, "a", 8, prompt="Olá").body("demo") == {
        "model": "demo",
        "prompt": "Olá",
        "max_tokens": 8,
        "temperature": 0.0,
        "top_p": 1.0,
        "stream": True,
    }


def test_extra_fields_are_sent_as_they_are():
    body = RequestSpec(0, "a", 8, messages=MESSAGES, top_k=5, seed=0, extra={"ignore_eos": True}).body("demo")
    assert (body["messages"], body["top_k"], body["seed"], body["ignore_eos"]) == (MESSAGES, 5, 0, True)
