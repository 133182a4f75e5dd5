"""How option values are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.cli import options
from specbench.cli.options import pairs, values, whole_numbers, words
from specbench.errors import SpecbenchError
from specbench.sweep.config import SweepConfig
from specbench.sweep.config_file import load_config


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


@pytest.mark.parametrize("flag", ["header", "header_env"])
@pytest.mark.parametrize(
    "written", ["Authorization: Bearer c2VjcmV0==", "c2VjcmV0==", "Authorization: Bearer c2VjcmV0", "X-Key=c2VjcmV0=="]
)
def test_a_header_that_is_written_wrong_is_not_repeated(flag: str, written: str) -> None:
    def read() -> SweepConfig:
        asked = options.given({flag: [written]}, {flag})
        return load_config(None, {"workload": ["w"], "backend": "attach", "url": "http://h:1", **asked})

    with pytest.raises(SpecbenchError) as raised:
        read()
    assert "c2VjcmV0" not in str(raised.value)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(SpecbenchError, match="--slo: ttft_p95 is given twice"):
        options.bounds("ttft_p95=1s,ttft_p95=2s", "--slo")


def test_rates_and_bounds_are_read_as_numbers_and_times() -> None:
    written = {"request_rate": "0.5,2", "slo": "ttft_p95=500ms,tpot_p99=50ms"}
    assert options.given(written, written.keys()) == {
        "request_rate": [0.5, 2.0],
        "slo": {"ttft_p95": 0.5, "tpot_p99": pytest.approx(0.05)},
    }


@pytest.mark.parametrize(
    ("option", "text", "sentence"),
    [
        ("request_rate", "fast", "--request-rate: expected numbers separated by commas"),
        ("slo", "ttft_p95", "--slo: expected METRIC_pPERCENTILE=TIME"),
        ("slo", "ttft=1s", "--slo: 'ttft' is none of ttft, tpot and e2e"),
        ("slo", "ttft_p95=soon", "--slo: expected a time such as 500ms"),
    ],
)
def test_what_is_no_rate_and_no_bound_is_one_sentence(option: str, text: str, sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        options.given({option: text}, [option])
