from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.sweep.config import SweepConfig
from specbench.sweep.requests import request_order
from specbench.workloads import Prompt, load_workload
from specbench.workloads.readers.jsonl import PASSED_ON

GOOD = '{"prompt": "Once upon a time"}'
USER = {"role": "user", "content": "Hi"}


def write(folder: Path, *lines: str | bytes, name: str = "file.jsonl") -> Path:
    path = folder / name
    path.write_bytes(b"".join(line.encode() + b"\n" if isinstance(line, str) else line for line in lines))
    return path


def test_a_file_becomes_its_prompts_in_order(tmp_path):
    messages = [{"role": "system", "content": "Be brief."}, USER]
    path = write(
        tmp_path,
        json.dumps({"id": "a", "messages": messages, "max_tokens": 64, "category": "greeting"}),
        "",
        json.dumps({"prompt": "Olá, você", "category": None}),
    )
    workload = load_workload(path)
    assert workload.prompts == (
        Prompt("a", messages=tuple(messages), max_tokens=64, category="greeting"),
        Prompt("file-3", prompt="Olá, você"),
    )
    assert (workload.name, workload.path, workload.skipped) == ("file", path, ())
    assert workload.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"prompt": "Hi"', "not valid JSON at column 16"),
        ("hello", "not valid JSON at column 1"),
        ("[" * 100_000, "not readable JSON"),
        ('["Hi"]', "a line must be a JSON object; got a list"),
        ("null", "a line must be a JSON object; got null"),
        ("{}", 'a line needs either "messages" or "prompt"; this one has neither'),
        ('{"prompt": null}', 'a line needs either "messages" or "prompt"; this one has neither'),
        ('{"prompt": "Hi", "messages": []}', 'a line needs either "messages" or "prompt"; this one has both'),
        (
            '{"messages": "Hi"}',
            '"messages" must be a list of {role, content}; got a string. Put plain text under "prompt"',
        ),
        ('{"messages": []}', '"messages" is empty'),
        ('{"messages": ["Hi"]}', "messages[0] must have exactly role and content; got a string"),
        ('{"messages": [{}]}', "messages[0] must have exactly role and content; got fields none"),
        ('{"messages": [{"role": "user", "text": "Hi"}]}', "must have exactly role and content; got fields role, text"),
        ('{"messages": [{"role": "human", "content": "Hi"}]}', 'has the role "human". Use system, user, assistant'),
        ('{"messages": [{"role": ["user"], "content": "Hi"}]}', 'has the role ["user"]'),
        ('{"messages": [{"role": "user", "content": 3}]}', "the content of messages[0] must be a string; got a number"),
        ('{"messages": [{"role": "user", "content": " "}]}', "the content of messages[0] is empty"),
        ('{"messages": [{"role": "assistant", "content": "Hi"}]}', "must be from the user; it is from the assistant"),
        ('{"prompt": ""}', '"prompt" is empty'),
        ('{"prompt": {"text": "Hi"}}', '"prompt" must be a string; got an object'),
        ('{"prompt": "\\ud800"}', '"prompt" holds half of a surrogate pair'),
        ('{"prompt": "Hi", "max_tokens": 0}', '"max_tokens" must be a whole number from 1 to 2147483647; got 0'),
        ('{"prompt": "Hi", "max_tokens": 1.5}', '"max_tokens" must be a whole number from 1 to 2147483647; got 1.5'),
        ('{"prompt": "Hi", "max_tokens": true}', '"max_tokens" must be a whole number from 1 to 2147483647; got true'),
        ('{"prompt": "Hi", "max_tokens": 99999999999999999999}', "to 2147483647; got 99999999999999999999"),
        ('{"prompt": "Hi", "chat_template_kwargs": 5}', '"chat_template_kwargs" must be an object; got 5'),
        ('{"prompt": "Hi", "response_format": "json"}', '"response_format" must be an object; got "json"'),
        ('{"prompt": "Hi", "structured_outputs": []}', '"structured_outputs" must be an object; got []'),
        ('{"prompt": "Hi", "tools": "abc"}', '"tools" must be a list of objects; got "abc"'),
        ('{"prompt": "Hi", "tools": ["abc"]}', '"tools" must be a list of objects; got ["abc"]'),
        ('{"prompt": "Hi", "tool_choice": true}', '"tool_choice" must be a string or an object; got true'),
        ('{"prompt": "Hi", "reasoning_effort": 3}', '"reasoning_effort" must be a string; got 3'),
        ('{"prompt": "Hi", "stop": 5}', '"stop" must be a non-empty string or a list of them; got 5'),
        ('{"prompt": "Hi", "stop": ["", "."]}', '"stop" must be a non-empty string or a list of them; got ["", "."]'),
        ('{"prompt": "Hi", "stop": "\\ud800"}', '"stop" holds NaN, Infinity or half of a surrogate pair'),
        ('{"prompt": "Hi", "chat_template_kwargs": {"x": NaN}}', '"chat_template_kwargs" holds NaN'),
        ('{"prompt": "Hi", "id": 7}', '"id" must be a string; got a number'),
        ('{"prompt": "Hi", "category": false}', '"category" must be a string; got true or false'),
        (
            '{"prompt": "Hi", "promt": "Hi"}',
            'unknown field "promt". Use only id, messages, prompt, max_tokens, category',
        ),
        (b'{"prompt": "caf\xe9"}\n', "not UTF-8 at byte 16 of the line. Save the file as UTF-8"),
    ],
)
def test_a_broken_line_is_one_sentence_with_file_line_and_way_out(tmp_path, line, said):
    path = write(tmp_path, GOOD, line)
    with pytest.raises(SpecbenchError) as caught:
        load_workload(path, skip_bad_lines=False)
    message = str(caught.value)
    assert message.startswith(f"{path}:2: ")
    assert message.endswith(", or pass --skip-bad-lines.")
    with pytest.raises(SpecbenchError) as caught:
        load_workload(path)  # nobody can ask for it here
    assert str(caught.value) == message.replace(", or pass --skip-bad-lines", "")
    assert said in message
    assert "\n" not in message

    skipping = load_workload(path, skip_bad_lines=True)
    assert len(skipping.prompts) == 1
    (problem,) = skipping.skipped
    assert problem.startswith(f"{path}:2: ")


def test_a_second_prompt_with_the_same_id_names_the_first(tmp_path):
    path = write(tmp_path, '{"id": "a", "prompt": "Hi"}', GOOD, '{"id": "a", "prompt": "Ho"}')
    with pytest.raises(SpecbenchError, match=r'file\.jsonl:3: the id "a" is already that of line 1\.'):
        load_workload(path)


def test_a_byte_order_mark_and_windows_line_ends_are_no_problem(tmp_path):
    path = write(tmp_path, b"\xef\xbb\xbf", GOOD + "\r", GOOD + "\r")
    assert len(load_workload(path).prompts) == 2


@pytest.mark.parametrize("lines", [(), ("", "  ")], ids=["empty", "blank"])
def test_a_file_without_prompts_shows_what_a_line_looks_like(tmp_path, lines):
    with pytest.raises(SpecbenchError, match=r'has no prompts\. Write one JSON object per line.*\{"prompt"'):
        load_workload(write(tmp_path, *lines))


def test_a_file_of_only_broken_lines_is_an_error_even_when_they_are_skipped(tmp_path):
    with pytest.raises(
        SpecbenchError, match=r"no usable line: all 2 were skipped, the first because: .*file\.jsonl:1: "
    ):
        load_workload(write(tmp_path, "x", "y"), skip_bad_lines=True)


def test_missing_files_directories_and_other_formats_are_named(tmp_path):
    with pytest.raises(SpecbenchError, match=r"no workload file .*nothing\.jsonl"):
        load_workload(tmp_path / "nothing.jsonl")
    with pytest.raises(SpecbenchError, match="is a directory"):
        load_workload(tmp_path)
    with pytest.raises(SpecbenchError, match=r"prompts\.docx: not a workload format.*It reads: specbench \(\.jsonl"):
        load_workload(write(tmp_path, GOOD, name="prompts.docx"))


def test_a_file_whose_name_a_run_could_not_write_down_is_refused(tmp_path):
    bad = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    bad.write_text(GOOD)
    with pytest.raises(SpecbenchError, match="the name is not UTF-8") as caught:
        load_workload(bad)
    str(caught.value).encode()
    assert load_workload(write(tmp_path, GOOD, name="é" * 50 + ".jsonl")).name == "é" * 50
    with pytest.raises(SpecbenchError, match=r"the name has 102 bytes.*Shorten it to 100"):
        load_workload(write(tmp_path, GOOD, name="é" * 51 + ".jsonl"))


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
message = st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": text})
chat = st.lists(message, max_size=3).map(lambda start: [*start, USER])
line = st.fixed_dictionaries({}, optional={"max_tokens": st.integers(1, 10**6), "category": text}).flatmap(
    lambda extra: st.one_of(text.map(lambda t: {"prompt": t, **extra}), chat.map(lambda c: {"messages": c, **extra}))
)


@given(st.lists(line, min_size=1, max_size=8), st.booleans())
def test_what_is_written_is_what_is_read(tmp_path_factory, lines, ascii_only):
    path = write(tmp_path_factory.mktemp("w"), *(json.dumps(entry, ensure_ascii=ascii_only) for entry in lines))
    for entry, prompt in zip(lines, load_workload(path).prompts, strict=True):
        assert prompt.prompt == entry.get("prompt")
        assert list(prompt.messages or ()) == entry.get("messages", [])
        assert (prompt.max_tokens, prompt.category) == (entry.get("max_tokens"), entry.get("category"))


@given(
    st.sampled_from(sorted(PASSED_ON)),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(st.characters()) | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
)
def test_what_is_passed_on_can_be_sent_or_is_a_sentence(tmp_path_factory, field, value):
    path = write(tmp_path_factory.mktemp("w"), json.dumps({"prompt": "Hi", field: value}))
    with suppress(SpecbenchError):
        for spec in request_order(load_workload(path), SweepConfig(workload=(path,)), batch_size=1):
            json.dumps(spec.body("m"), allow_nan=False, ensure_ascii=False).encode()


@given(st.lists(st.one_of(st.binary(max_size=40), st.just(GOOD.encode())), max_size=6))
def test_no_bytes_at_all_bring_anything_but_a_sentence(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("w") / "file.jsonl"
    path.write_bytes(b"\n".join(lines))
    try:
        workload = load_workload(path, skip_bad_lines=True)
    except SpecbenchError:
        return
    assert len(workload.prompts) + len(workload.skipped) == sum(
        bool(part.strip()) for part in path.read_bytes().split(b"\n")
    )
