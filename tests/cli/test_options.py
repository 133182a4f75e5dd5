"""How option values are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.cli.options import pairs, values, whole_numbers, words
from specbench.errors import SpecbenchError


@given(st.lists(st.integers(), min_size=1))
def test_whole_numbers_read_what_commas_join(numbers: list[int]) -> None:
    assert whole_numbers(",".join(map(str, numbers)), "--gamma") == numbers


def test_pairs() -> None:
    assert pairs("draft_model=./d,eagle3=e=f", "--drafter") == {"draft_model": "./d", "eagle3": "e=f"}


def test_values_are_json_where_they_can_be() -> None:
    assert values("enable_thinking=false,budget=12,style=short", "--f") == {
        "enable_thinking": False,
        "budget": 12,
        "style": "short",
    }


@pytest.mark.parametrize(
    ("read", "text"),
    [(words, "a,,b"), (whole_numbers, "1,two"), (pairs, "draft_model"), (pairs, "=x")],
)
def test_a_mistake_names_the_flag_and_quotes_the_text(read, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SpecbenchError, match="--flag") as caught:
        read(text, "--flag")
    assert repr(text.split(",")[0] if read is pairs else text) in str(caught.value)
