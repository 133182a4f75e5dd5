"""Logs in the shapes that people have, and a sentence with file and line for what is none of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from known_run import NGRAM, measurement, store

from specbench.errors import SpecbenchError
from specbench.profile.encoders import Bytes, ModelTokens, Words
from specbench.profile.logs import LogFile, batch_prompts, run_transcripts
from specbench.profile.offsets import Transcript
from specbench.speculation import BASELINE

CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
COMPLETION = {"choices": [{"message": {"role": "assistant", "content": "Ho"}, "finish_reason": "stop"}]}

SHAPES: dict[str, dict[str, Any]] = {
    "a chat that ends with the answer": {"messages": CHAT},
    "a chat with content in parts": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": "Ho"},
        ]
    },
    "ShareGPT": {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]},
    "messages and response": {"messages": CHAT[:1], "response": "Ho"},
    "messages as the prompt": {"prompt": CHAT[:1], "completion": "Ho"},
    "a proxy's log": {"request": {"model": "m", "messages": CHAT[:1]}, "response": COMPLETION},
    "a proxy's log of a batch": {"request": {"body": {"messages": CHAT[:1]}}, "response": {"body": COMPLETION}},
}


def transcripts(tmp_path: Path, *lines: dict[str, Any], **options: Any) -> list[Transcript]:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(LogFile(path, Bytes(), **options))


def said(tokens: Any) -> str:
    return bytes(token for token in tokens if token < 256).decode()


@pytest.mark.parametrize("shape", SHAPES)
def test_chats_come_in_many_shapes(tmp_path: Path, shape: str) -> None:
    (found,) = transcripts(tmp_path, {**SHAPES[shape], "category": "greeting"})
    assert (said(found.prompt), said(found.response), found.category) == ("user: Hi\n", "Ho", "greeting")


@pytest.mark.parametrize("field", ["response", "completion", "output"])
def test_plain_prompts_stand_as_they_are(tmp_path: Path, field: str) -> None:
    (found,) = transcripts(tmp_path, {"id": 7, "prompt": "Once", field: " upon"})
    assert (found.id, said(found.prompt), said(found.response)) == ("7", "Once", " upon")


def test_a_completion_object_is_read_too(tmp_path: Path) -> None:
    choice = {"text": " upon", "finish_reason": "length"}
    (found,) = transcripts(tmp_path, {"request": {"prompt": "Once"}, "response": {"choices": [choice]}})
    assert (said(found.prompt), said(found.response)) == ("Once", " upon")


def test_token_ids_are_taken_as_they_are(tmp_path: Path) -> None:
    (found,) = transcripts(tmp_path, {"prompt_token_ids": [1, 2], "token_ids": [3, 4]})
    assert (list(found.prompt), list(found.response), found.max_tokens) == ([1, 2], [3, 4], None)


def test_a_response_ends_with_a_token_of_its_own_unless_the_limit_cut_it(tmp_path: Path) -> None:
    """An engine emits the end in a step like any other; after a cut the last drafts were held short."""
    ended, cut = transcripts(
        tmp_path,
        {"prompt": "a", "response": "bc", "finish_reason": "stop"},
        {"prompt": "a", "response": "bc", "finish_reason": "length"},
    )
    assert (list(ended.response), ended.max_tokens) == ([*b"bc", *Bytes.end], None)
    assert (list(cut.response), cut.max_tokens) == ([*b"bc"], 2)


def test_a_batch_output_finds_its_prompts_in_the_batch_input(tmp_path: Path) -> None:
    asked = tmp_path / "input.jsonl"
    asked.write_text(json.dumps({"custom_id": "r1", "method": "POST", "body": {"messages": CHAT[:1]}}) + "\n")
    answered = {"custom_id": "r1", "response": {"status_code": 200, "body": COMPLETION}}
    (found,) = transcripts(tmp_path, answered, prompts=batch_prompts(asked))
    assert (found.id, said(found.prompt), said(found.response)) == ("r1", "user: Hi\n", "Ho")
    log = LogFile(tmp_path / "log.jsonl", Bytes())
    assert [said(t.prompt) for t in log] == [""]
    assert log.promptless == 1
    with pytest.raises(SpecbenchError, match=r"log\.jsonl:1: not a request of OpenAI's batch API"):
        batch_prompts(tmp_path / "log.jsonl")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "not valid JSON"),
        ("[1]", "a line must be a JSON object"),
        ('{"prompt": "x"}', "no prompt and response in a known shape"),
        ('{"prompt": "x", "response": ""}', "the response is empty"),
        ('{"prompt": 5, "response": "x"}', '"prompt" must be'),
        ('{"messages": [{"role": "user", "content": "x"}]}', "the last message must be the assistant's"),
        ('{"messages": "x"}', '"messages" must be a list'),
        ('{"request": {"body": 7}, "response": {"choices": []}}', '"request", and a "body" in it, must be objects'),
        ('{"prompt": "x", "response": "\\ud800"}', "it holds half of a surrogate pair"),
        ('{"token_ids": ["x"]}', "token ids must be a list of whole numbers"),
        ('{"response": {"error": "x"}}', "the response has no choices"),
        ('{"response": {"choices": [{"message": {"content": null}}]}}', "the first choice has no text"),
    ],
)
def test_a_line_of_no_known_shape_is_named_or_skipped(tmp_path: Path, line: str, sentence: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"prompt": "a", "response": "b"}}\n\n{line}\n')
    with pytest.raises(SpecbenchError, match=rf"log\.jsonl:3: {sentence}.* Or pass --skip-bad-lines\."):
        list(LogFile(path, Bytes()))
    log = LogFile(path, Bytes(), skip_bad_lines=True)
    assert len(list(log)) == 1
    assert [sentence in skipped for skipped in log.skipped] == [True]


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match="no log file"):
        list(LogFile(tmp_path / "nowhere.jsonl", Bytes()))


def test_a_run_s_baseline_is_a_log(tmp_path: Path) -> None:
    run = store(tmp_path, [measurement(NGRAM, accepted=2), *(measurement(BASELINE, repeat=k) for k in range(2))])
    found = list(run_transcripts(run))
    assert [t.id for t in found] == [f"p{i:03}" for i in range(8)]
    assert all(len(t.prompt) == 20 and t.max_tokens == len(t.response) == 41 for t in found)


@pytest.mark.parametrize("text", ["", "One two,\n  three!", "naïve — ✓ \u0000", "   "])
def test_words_lose_nothing(text: str) -> None:
    words = Words()
    numbers = words.text(text)
    spelled = {number: word for word, number in words._numbers.items()}
    assert "".join(spelled[number] for number in numbers) == text
    assert 0 not in numbers


def test_a_model_s_tokens_are_what_the_engine_sees(tiny_target: Path) -> None:
    tokens = ModelTokens(tiny_target, "tiny")
    assert tokens.end == (257,)
    assert len(tokens.text("abc")) == 3
    chat = tokens.chat(CHAT[:1])
    assert chat[0] == 256
    assert len(chat) > len(tokens.text("Hi"))
    with pytest.raises(SpecbenchError, match="no tokenizer loads from nowhere"):
        ModelTokens(tiny_target / "nowhere", "nowhere")
