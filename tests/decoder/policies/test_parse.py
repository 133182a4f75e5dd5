"""How rules are written, and what each of them is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from specbench.decoder.policies import parse


@pytest.mark.parametrize(
    ("written", "canonical", "largest", "stop_below"),
    [
        (4, "4", 4, None),
        ("4", "4", 4, None),
        ("schedule:1=4+5=2+9=0", "schedule:1=4+5=2+9=0", 4, None),
        ("adaptive:threshold", "adaptive:threshold", 7, None),
        ("adaptive:threshold+on=conditional+max=7", "adaptive:threshold", 7, None),
        ("adaptive:threshold+below=.5+max=5", "adaptive:threshold+max=5+below=0.5", 5, None),
        ("adaptive:goodput+max=3", "adaptive:goodput+max=3", 3, None),
        ("adaptive:confidence", "adaptive:confidence", 7, 0.4),
        ("adaptive:confidence+below=0.25+max=12", "adaptive:confidence+max=12+below=0.25", 12, 0.25),
    ],
)
def test_a_rule_is_written_in_one_way(written: int | str, canonical: str, largest: int, stop_below: float) -> None:
    policy = parse(written)
    assert (str(policy), policy.largest, policy.stop_below) == (canonical, largest, stop_below)
    assert str(parse(canonical)) == canonical


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("fast", "expected a gamma such as 4, schedule:1=4.9=0 or adaptive:threshold; got 'fast'"),
        ("schedule:2=4", "begins at batch size 1"),
        ("adaptive:", "no adaptive rule ''. There are: adaptive:threshold, adaptive:goodput, adaptive:confidence"),
        (
            "adaptive:threshold+top=3",
            "takes, once each and joined by .: max=7, on=conditional, above=0.85, ",
        ),
        ("adaptive:goodput+max=3+max=3", "once each"),
        ("adaptive:goodput+max=many", "max must be a number; got 'many'"),
        ("adaptive:threshold+max=0", "max must be at least 1; got 0"),
        ("adaptive:threshold+on=tokens", "on is one of conditional, drafted; got 'tokens'"),
        ("adaptive:threshold+above=0.6", "0 <= below <= above <= 1 must hold; got below=0.7 and above=0.6"),
        ("adaptive:threshold+below=nan", "must hold"),
        ("adaptive:confidence+below=1", "below is a probability between 0 and 1; got 1"),
    ],
)
def test_a_mistake_is_one_sentence(written: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse(written)


def test_rules_need_neither_torch_nor_anything_else_of_specbench() -> None:
    code = (
        "import sys, specbench.decoder.policies as p; p.parse('adaptive:goodput'); "
        "print(sorted(m for m in sys.modules if m == 'torch' or m.startswith('specbench.') "
        "and not m.startswith('specbench.decoder')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
