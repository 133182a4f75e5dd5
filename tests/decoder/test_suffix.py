"""Suffix decoding drafts what arctic-inference drafts, which is what vLLM runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.decoder.suffix import SuffixIndex, SuffixMemory, SuffixRule
from specbench.decoder.suffix_tree import SuffixTree, Text

ARCTIC: dict[str, Any] = json.loads(Path(__file__).with_name("arctic_drafts.json").read_text())

TOKENS = st.lists(st.integers(0, 2), max_size=40)


@pytest.mark.parametrize("number", range(len(ARCTIC["cases"])))
def test_every_draft_is_that_of_arctic_inference(number: int) -> None:
    """As `arctic_drafts.py` wrote them down; some cases have a memory, and requests side by side."""
    case = ARCTIC["cases"][number]
    rule = SuffixRule(**case["rule"])
    memory = SuffixMemory(rule, case["cached_requests"]) if case["cached_requests"] else None
    indexes: dict[int, SuffixIndex] = {}
    for event in case["events"]:
        if "begin" in event:
            indexes[event["begin"]] = SuffixIndex(event["prompt"], rule, memory)
        elif "end" in event:
            del indexes[event["end"]]
        else:
            index = indexes[event["request"]]
            index.extend(event["emitted"])
            drafts = index.proposals(max(ARCTIC["limits"]))
            assert [drafts[limit - 1] for limit in ARCTIC["limits"]] == event["drafts"]
            assert [index.propose(limit) for limit in ARCTIC["limits"]] == event["drafts"]


def test_the_cases_of_arctic_inference_have_what_is_easily_wrong() -> None:
    events = [event for case in ARCTIC["cases"] for event in case["events"] if "drafts" in event]
    assert sum(any(event["drafts"]) for event in events) > 400
    # With fewer tokens allowed the draft is another one, and not only a shorter one.
    assert any(e["drafts"][4][: len(e["drafts"][1])] != e["drafts"][1] for e in events)
    assert {case["cached_requests"] for case in ARCTIC["cases"]} >= {0, 1, 2}


@given(tokens=TOKENS, depth=st.integers(1, 6))
def test_a_tree_counts_every_string_of_its_text(tokens: list[int], depth: int) -> None:
    tree, text = SuffixTree(depth), Text()
    tree.extend(text, tokens)
    for length in range(1, depth + 1):
        for start in range(len(tokens) - length + 1):
            string = tokens[start : start + length]
            node = tree.find(string)
            assert node is not None
            assert node.count == sum(tokens[at : at + length] == string for at in range(len(tokens)))
    assert tree.find([9]) is None


@given(kept=TOKENS, removed=TOKENS, k=st.integers(1, 6))
def test_what_a_memory_has_forgotten_leaves_no_trace(kept: list[int], removed: list[int], k: int) -> None:
    rule = SuffixRule()
    fresh, used = SuffixMemory(rule, 1), SuffixMemory(rule, 1)
    used.extend(used.begin(), removed)
    for memory in (fresh, used):
        memory.extend(memory.begin(), kept)
    for length in range(1, len(kept)):
        nodes = [memory.tree.find(kept[:length]) for memory in (fresh, used)]
        drafts = [
            memory.tree.follow(node, length, k, 0.1) for memory, node in zip((fresh, used), nodes, strict=True) if node
        ]
        assert drafts[0] == drafts[1]


@given(tokens=TOKENS, most=st.integers(1, 8))
def test_a_draft_is_never_longer_than_its_match_or_the_limit(tokens: list[int], most: int) -> None:
    index = SuffixIndex(tokens, SuffixRule())
    repeated = max(
        (n for n in range(1, len(tokens)) for at in range(len(tokens) - n) if tokens[at : at + n] == tokens[-n:]),
        default=0,
    )
    for limit, draft in enumerate(index.proposals(most), start=1):
        assert len(draft) <= min(limit, repeated)


def test_the_likelier_continuation_wins() -> None:
    index = SuffixIndex([1, 2, 3, 9, 1, 2, 4, 8, 1, 2, 3, 7, 1, 2], SuffixRule())
    assert index.propose(1) == [3]


def test_a_memory_lets_a_request_draft_what_another_was_answered() -> None:
    rule = SuffixRule()
    memory = SuffixMemory(rule, 10)
    SuffixIndex([1], rule, memory).extend([5, 6, 7, 8, 9])
    alone, together = SuffixIndex([2], rule), SuffixIndex([2], rule, memory)
    for index in (alone, together):
        index.extend([5, 6])
    assert (alone.propose(4), together.propose(4)) == ([], [7, 8])


def test_a_memory_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one request"):
        SuffixMemory(SuffixRule(), 0)


def test_it_imports_without_torch() -> None:
    code = "import sys, specbench.decoder.suffix; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
