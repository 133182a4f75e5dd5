"""Every format is read as its own tools write it: files of our own making, in the shapes that are documented."""

from __future__ import annotations

import gzip
import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specbench.errors import SpecbenchError
from specbench.workloads import Prompt, load_workload

WEATHER = {"type": "function", "function": {"name": "weather"}}


def said(*contents: str, system: str | None = None) -> tuple[dict[str, str], ...]:
    roles = ("user", "assistant") * len(contents)
    told = [] if system is None else [{"role": "system", "content": system}]
    return (*told, *({"role": r, "content": c} for r, c in zip(roles, contents, strict=False)))


READ: dict[str, tuple[dict[str, Any], Prompt]] = {
    "Spec-Bench: all turns": (
        {"question_id": 81, "category": "writing", "turns": ["Compose.", "Rewrite."], "reference": ["A", "B"]},
        Prompt("81", messages=said("Compose."), category="writing", follow_ups=("Rewrite.",)),
    ),
    "SPEED-Bench": (
        {
            "question_id": "a1",
            "category": "coding",
            "sub_category": "python",
            "turns": ["Write.", "Test.", "Doc."],
            "source": "own",
            "src_id": None,
            "difficulty": "hard",
            "multiturn": True,
        },
        Prompt("a1", messages=said("Write."), category="coding", follow_ups=("Test.", "Doc.")),
    ),
    "ShareGPT: up to the last question, as recorded": (
        {
            "id": "x_0",
            "conversations": [
                {"from": "gpt", "value": "(cut)"},
                {"from": "human", "value": "Hi"},
                {"from": "gpt", "value": "Hello."},
                {"from": "human", "value": "Bye"},
                {"from": "gpt", "value": "Ciao."},
            ],
        },
        Prompt("x_0", messages=said("Hi", "Hello.", "Bye")),
    ),
    "SGLang custom: by turns": (
        {"conversation": [{"content": "Hi"}, {"content": "Hello."}]},
        Prompt("file-1", messages=said("Hi")),
    ),
    "SGLang custom: values": (
        {"conversations": [{"role": "user", "value": "Hi"}, {"role": "assistant", "value": "Hello."}]},
        Prompt("file-1", messages=said("Hi")),
    ),
    "WildChat": (
        {
            "conversation_hash": "cafe",
            "model": "gpt-4",
            "language": "Portuguese",
            "turn": 1,
            "conversation": [
                {"role": "user", "content": "Oi", "language": "Portuguese", "toxic": False},
                {"role": "assistant", "content": "Olá.", "language": "Portuguese", "toxic": False},
            ],
        },
        Prompt("cafe", messages=said("Oi"), category="Portuguese"),
    ),
    "LMSYS-Chat": (
        {"conversation_id": "beef", "conversation": [{"content": "Hi", "role": "user"}], "language": "English"},
        Prompt("beef", messages=said("Hi"), category="English"),
    ),
    "OpenAI batch: a chat": (
        {
            "custom_id": "request-1",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": "any",
                "messages": list(said("Hi", system="Be brief.")),
                "max_completion_tokens": 7,
                "temperature": 0.2,
                "tools": [WEATHER],
            },
        },
        Prompt("request-1", messages=said("Hi", system="Be brief."), max_tokens=7, extra={"tools": [WEATHER]}),
    ),
    "OpenAI batch: a completion": (
        {"custom_id": "request-2", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Once"}},
        Prompt("request-2", prompt="Once"),
    ),
    "OpenAI's request bodies, with parts": (
        {"model": "any", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "max_tokens": 9},
        Prompt("file-1", messages=said("Hi"), max_tokens=9),
    ),
    "vLLM custom is a chat": (
        {"prompt": "Hi", "output_tokens": 12},
        Prompt("file-1", messages=said("Hi"), max_tokens=12),
    ),
    "GuideLLM": (
        {"prompt": "Hi", "prompt_tokens_count": 1, "output_tokens_count": 12, "system_prompt": "Be brief."},
        Prompt("file-1", messages=said("Hi", system="Be brief."), max_tokens=12),
    ),
    "GuideLLM: turns": (
        {"prompt_0": "Hi", "prompt_1": "Bye", "output_tokens_count_0": 12, "output_tokens_count_1": 12},
        Prompt("file-1", messages=said("Hi"), max_tokens=12, follow_ups=("Bye",)),
    ),
    "AIPerf: one turn": (
        {"text": "Hi", "output_length": 50, "extra": {"temperature": 1.2, "stop": ["."]}},
        Prompt("file-1", messages=said("Hi"), max_tokens=50, extra={"stop": ["."]}),
    ),
    "AIPerf: parts": ({"texts": ["Hi", "there"]}, Prompt("file-1", messages=said("Hi\nthere"))),
    "AIPerf: turns": (
        {
            "session_id": "chat_1",
            "turns": [{"role": "system", "text": "Be brief."}, {"text": "Hi", "delay": 500}, {"texts": ["Bye"]}],
        },
        Prompt("chat_1", messages=said("Hi", system="Be brief."), follow_ups=("Bye",)),
    ),
    "AIPerf: a trace's text": (
        {"timestamp": 0, "text_input": "Hi", "output_length": 5, "session_id": "s"},
        Prompt("file-1", messages=said("Hi"), max_tokens=5),
    ),
    "AIPerf: a trace's messages": (
        {"session_id": "s", "messages": list(said("Hi", "Hello.", "Bye")), "output_length": 5, "delay": 20},
        Prompt("file-1", messages=said("Hi", "Hello.", "Bye"), max_tokens=5),
    ),
    "a log of completions": ({"prompt": "Once", "response": "upon"}, Prompt("file-1", prompt="Once")),
    "a log of chats": (
        {"id": "r1", "model": "any", "messages": list(said("Hi")), "response": "Hello.", "category": "x"},
        Prompt("r1", messages=said("Hi"), category="x"),
    ),
    "a log of requests": (
        {"request": {"messages": list(said("Hi")), "max_tokens": 3}, "response": {"choices": []}},
        Prompt("file-1", messages=said("Hi"), max_tokens=3),
    ),
    "our own: turns to follow": (
        {"id": "a", "messages": list(said("Hi")), "follow_ups": ["Go on.", "Stop."]},
        Prompt("a", messages=said("Hi"), follow_ups=("Go on.", "Stop.")),
    ),
}


@pytest.mark.parametrize(("entry", "prompt"), READ.values(), ids=READ)
@pytest.mark.parametrize("kind", ["jsonl", "json", "json.gz", "parquet"])
def test_an_entry_is_the_same_prompt_in_lines_in_an_array_and_in_parquet(entry, prompt, kind, tmp_path: Path) -> None:
    path = tmp_path / f"file.{kind}"
    match kind:
        case "jsonl":
            path.write_text(json.dumps(entry) + "\n")
        case "json":
            path.write_bytes(b"\xef\xbb\xbf" + json.dumps([entry], ensure_ascii=False).encode())
        case "json.gz":
            path.write_bytes(gzip.compress(json.dumps([entry], indent=1).encode()))
        case "parquet":
            pq.write_table(pa.Table.from_pylist([entry]), path)
    found = load_workload(path).prompts[0]
    stem = "file.json" if kind == "json.gz" else "file"  # what a file is called decides the ids that it lacks
    assert found == (prompt if prompt.id != "file-1" else Prompt(**{**fields(prompt), "id": f"{stem}-1"}))


def fields(prompt: Prompt) -> dict[str, Any]:
    return {name: getattr(prompt, name) for name in Prompt.__dataclass_fields__}


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no turns": ({"question_id": 1, "turns": []}, '"turns" must be a list of what the user says; got an empty list'),
    "a turn of another kind": ({"question_id": 1, "turns": [3]}, "turns[0] must be a string; got a number"),
    "nobody asks": ({"conversations": [{"from": "gpt", "value": "Hi"}]}, "holds nothing that the user said"),
    "another role": ({"conversations": [{"from": "tool", "value": "3"}]}, 'has the role "tool", which is not played'),
    "a picture": (
        {"custom_id": "a", "body": {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}},
        "holds something other than text",
    ),
    "a body of text": ({"custom_id": "a", "body": "Hi"}, '"body" must be an object; got a string'),
    "another body of text": (
        {"request": {"body": "Hi"}, "response": "Ho"},
        '"request" must be an object; got a string',
    ),
    "no fields": ({"text": "Hi", "extra": [1]}, '"extra" must be an object; got a list'),
    "no limit": ({"prompt": "Hi", "output_tokens": 0}, '"output_tokens" must be a whole number from 1'),
    "an assistant's turn": ({"turns": [{"text": "Hi", "role": "assistant"}]}, "after one of the system at most"),
    "turns after a text": ({"prompt": "Once", "follow_ups": ["Go on."]}, '"follow_ups" need "messages" to follow'),
}


@pytest.mark.parametrize(("entry", "said"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_is_one_sentence_with_file_and_line(entry, said, tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text("\n" + json.dumps(entry) + "\n")
    with pytest.raises(SpecbenchError) as caught:
        load_workload(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert said in str(caught.value)


def test_lines_under_the_name_of_an_array_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    path.write_text('{"prompt": "Hi"}\n{"prompt": "Ho"}\n')
    assert [prompt.prompt for prompt in load_workload(path).prompts] == ["Hi", "Ho"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("cut.json", b'[{"prompt": "Hi"}, {"prom', "no whole JSON array"),
        ("cut.parquet", b"PAR1 and no more", "no Parquet file that can be read"),
        ("broken.parquet", b"PAR1" + b"\xff" * 40 + b"\x28\0\0\0PAR1", "no Parquet file that can be read"),
        ("broken.jsonl.gz", gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 20, "is not whole, or not packed by gzip"),
        (
            "deep.json",
            b'[{"prompt": "Hi", "chat_template_kwargs": {"a": ' + b"[" * 5000 + b"]" * 5000 + b"}}]",
            "levels",
        ),
    ],
)
def test_half_a_file_is_one_sentence(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SpecbenchError, match=said) as caught:
        load_workload(path)
    assert "\n" not in str(caught.value)


def test_endings_may_be_in_capitals(tmp_path: Path) -> None:
    packed, table = tmp_path / "FILE.JSONL.GZ", tmp_path / "FILE.PARQUET"
    packed.write_bytes(gzip.compress(b'{"prompt": "Hi"}'))
    pq.write_table(pa.Table.from_pylist([{"prompt": "Hi"}]), table)
    assert [load_workload(path).prompts[0].prompt for path in (packed, table)] == ["Hi", "Hi"]


def test_a_date_of_parquet_is_no_limit(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(pa.Table.from_pylist([{"prompt": "Hi", "output_tokens": date(2026, 1, 1)}]), path)
    with pytest.raises(SpecbenchError, match=r'"output_tokens" must be a whole number .*2026-01-01'):
        load_workload(path)
