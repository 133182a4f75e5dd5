"""Prompts survive the way into another format and back, and what does not is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.workloads import Prompt, load_workload
from specbench.workloads.convert import convert
from specbench.workloads.readers import FORMATS, find_writer
from specbench.workloads.reference import Reference

WRITABLE = [name for name, form in FORMATS.items() if form.writable]

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)
system = text.map(lambda t: {"role": "system", "content": t})
user = text.map(lambda t: {"role": "user", "content": t})
answer = text.map(lambda t: {"role": "assistant", "content": t})
chat = st.one_of(
    user.map(lambda u: (u,)),
    st.tuples(system, user),
    st.tuples(user, answer, user),
    st.tuples(system, user, answer, user),
)
optional = {
    "max_tokens": st.none() | st.integers(1, 10**6),
    "category": st.none() | text,
    "reference": st.none() | st.lists(text, min_size=1, max_size=2).map(lambda a: Reference(tuple(a), "contains")),
    "extra": st.just({}) | st.just({"stop": ["."], "chat_template_kwargs": {"enable_thinking": False}}),
}
prompts = st.one_of(
    st.builds(Prompt, text, prompt=text, **optional),
    st.builds(Prompt, text, messages=chat, follow_ups=st.lists(text, max_size=2).map(tuple), **optional),
)


@pytest.mark.parametrize("to", WRITABLE)
@given(
    prompts=st.lists(prompts, min_size=1, max_size=5, unique_by=lambda p: p.id), kind=st.sampled_from(["jsonl", "json"])
)
def test_what_is_not_said_to_be_lost_comes_back_equal(tmp_path_factory, to: str, prompts, kind: str) -> None:
    folder = tmp_path_factory.mktemp("c")
    mine, theirs = folder / "mine.jsonl", folder / f"theirs.{kind}"
    mine.write_text("".join(json.dumps(find_writer("specbench").entry_of(p)) + "\n" for p in prompts))
    assert load_workload(mine).prompts == tuple(prompts)
    try:
        done = convert(mine, theirs, to)
    except SpecbenchError:  # none of them is held
        assert not theirs.exists()
        return
    assert done.written + sum(done.left_out.values()) == len(prompts)
    back = load_workload(theirs, form=to).prompts
    assert len(back) == done.written
    assert {"specbench": 0}.get(to, done.lost.total()) == done.lost.total()
    if not done.left_out:
        for before, after in zip(prompts, back, strict=True):
            lost = {name for name in Prompt.__dataclass_fields__ if name in done.lost}
            lost |= {"messages"} if "prompt" in lost else set()
            assert replace(before, **{n: getattr(after, n) for n in lost}) == after


def test_losses_and_what_cannot_be_held_are_counted(tmp_path: Path) -> None:
    path, out = tmp_path / "question.jsonl", tmp_path / "out.jsonl"
    path.write_text(
        '{"id": "a", "messages": [{"role": "user", "content": "Hi"}], "follow_ups": ["Bye"], "category": "x"}\n'
        '{"id": "b", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}\n'
        '{"id": "c", "prompt": "Once", "max_tokens": 5}\n'
    )
    done = convert(path, out, "vllm")
    assert done.written == 2
    assert done.lost == {"id": 2, "follow_ups": 1, "category": 1, "prompt": 1}
    assert done.left_out == {"it has a system message, which this format has no place for": 1}
    assert [json.loads(line) for line in out.read_text().splitlines()] == [
        {"prompt": "Hi"},
        {"prompt": "Once", "output_tokens": 5},
    ]


def test_a_choice_of_prompts(tmp_path: Path) -> None:
    path, out = tmp_path / "in.jsonl", tmp_path / "out.json"
    path.write_text("".join(f'{{"prompt": "{i}", "category": "{"ab"[i % 2]}"}}\n' for i in range(10)))
    convert(path, out, "specbench", category="b", limit=3)
    assert [entry["prompt"] for entry in json.loads(out.read_text())] == ["1", "3", "5"]


def test_a_broken_line_leaves_what_was_there(tmp_path: Path) -> None:
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"prompt": "Hi"}\nbroken\n')
    out.write_text("before\n")
    with pytest.raises(SpecbenchError, match=r"in\.jsonl:2: not valid JSON"):
        convert(path, out, "vllm")
    assert sorted(tmp_path.iterdir()) == [path, out]
    assert out.read_text() == "before\n"
    assert len(convert(path, out, "vllm", skip_bad_lines=True).skipped) == 1


@pytest.mark.parametrize(
    ("out", "to", "said"),
    [
        ("out.csv", "vllm", r"must end in \.jsonl"),
        ("nowhere/out.jsonl", "vllm", "no directory .*nowhere to write out"),
        ("out.jsonl", "gsm8k", r"--to: 'gsm8k' is none of the formats here\. Choose from: specbench, spec-bench"),
        ("out.jsonl", "sglang", "no prompt to write as sglang; of 1 it has a system message"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(out: str, to: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]}\n')
    with pytest.raises(SpecbenchError, match=said):
        convert(path, tmp_path / out, to)
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_is_not_written_to_and_a_category_that_nothing_has_is_named(tmp_path: Path) -> None:
    path, folder = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"prompt": "Hi"}\n')
    folder.mkdir()
    with pytest.raises(SpecbenchError, match=r"out\.jsonl is a directory"):
        convert(path, folder, "vllm")
    with pytest.raises(SpecbenchError, match="no prompt of category 'x' to write as vllm"):
        convert(path, tmp_path / "new.jsonl", "vllm", category="x")


def test_a_file_is_not_written_over_itself(tmp_path: Path) -> None:
    """What the other format does not keep would be lost for good."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt": "one", "max_tokens": 7}\n')
    (tmp_path / "b.jsonl").symlink_to(path)
    with pytest.raises(SpecbenchError, match="is what is read"):
        convert(path, tmp_path / "b.jsonl", "sharegpt")
    assert "max_tokens" in path.read_text()
