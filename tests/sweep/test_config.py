"""Configurations: YAML and flags, and the sentence for each mistake."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.speculation import BASELINE, Speculation
from specbench.sweep.config import SweepConfig
from specbench.sweep.config_file import load_config, save_config

WORKLOAD = {"workload": ["chat.jsonl"]}


def test_flags_override_the_file(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text("workload: chat.jsonl\ngamma: [2, 4]\nmax_tokens: 32\n")
    config = load_config(path, {"gamma": [3]})
    assert config.gamma == (3,)
    assert config.max_tokens == 32
    assert config.workload == (Path("chat.jsonl"),)


@pytest.mark.parametrize(
    ("file", "flags", "dtype"),
    [
        ("", {}, "float32"),
        ("device: cuda:1\n", {}, "bfloat16"),
        ("", {"device": "cuda"}, "bfloat16"),
        ("dtype: float32\n", {"device": "cuda"}, "float32"),
        ("device: cuda\n", {"device": "cpu"}, "float32"),
    ],
)
def test_a_gpu_computes_in_16_bits_unless_told_otherwise(
    tmp_path: Path, file: str, flags: dict[str, str], dtype: str
) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(f"workload: chat.jsonl\n{file}")
    assert load_config(path, flags).dtype == dtype


def test_a_saved_configuration_reads_back_the_same(tmp_path: Path) -> None:
    config = load_config(None, {**WORKLOAD, "method": ["draft_model"], "drafter": {"draft_model": "d"}, "seed": 7})
    save_config(config, tmp_path / "saved.yaml")
    assert load_config(tmp_path / "saved.yaml", {}) == config


def test_the_baseline_is_always_an_arm_and_comes_first() -> None:
    config = load_config(None, {**WORKLOAD, "method": ["ngram", "none", "ngram"], "gamma": [4, 2, 4]})
    assert config.speculations() == (BASELINE, Speculation("ngram", 2), Speculation("ngram", 4))


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({}, "no workload given"),
        ({**WORKLOAD, "gamma": [0]}, "--gamma"),
        ({**WORKLOAD, "batch_size": [0]}, "--batch-size"),
        ({**WORKLOAD, "temperature": -1.0}, "--temperature"),
        ({**WORKLOAD, "temperature": 3.0}, "--temperature: .* less than or equal to 2; got 3.0"),
        ({**WORKLOAD, "temperature": float("inf")}, "--temperature"),
        ({**WORKLOAD, "temperature": float("nan")}, "--temperature"),
        ({**WORKLOAD, "top_p": 0.0}, "--top-p"),
        ({**WORKLOAD, "top_p": 1e-300}, "--top-p"),
        ({**WORKLOAD, "seed": 2**63 - 1}, "--seed"),
        ({**WORKLOAD, "seed": -(2**63) - 1}, "--seed"),
        ({**WORKLOAD, "threads": 100_000}, "--threads: .* less than or equal to 1024"),
        ({**WORKLOAD, "target": ""}, "--target"),
        ({**WORKLOAD, "engine_arg": ["'"]}, "--engine-arg: no shell could split '"),
        ({"workload": ["~nouser/x.jsonl"]}, "~nouser/x.jsonl: there is no home directory ~nouser"),
        ({**WORKLOAD, "ready_timeout": "soon"}, "--ready-timeout: expected a time such as .*; got 'soon'"),
        ({**WORKLOAD, "gpu_price": float("inf")}, "--gpu-price"),
        ({**WORKLOAD, "gpu_price": 0.0}, "--gpu-price"),
        ({**WORKLOAD, "gpu_price": 1e7}, "--gpu-price: .* less than or equal to 1000000"),
        ({**WORKLOAD, "gpu_count": 10**7}, "--gpu-count: .* less than or equal to 1000000"),
        ({**WORKLOAD, "tokens_per_month": 1e19}, "--tokens-per-month: .* less than or equal to 10{18};"),
        ({**WORKLOAD, "requests": 10**8}, "--requests: .* less than or equal to 10000000"),
        ({**WORKLOAD, "batch_size": [10**6]}, "--batch-size: .* less than or equal to 100000"),
        ({**WORKLOAD, "until_ci": "3"}, "--until-ci: expected a percentage such as 3%; got '3'"),
        ({**WORKLOAD, "until_ci": "3%", "max_replicates": 2}, "--max-replicates 2 is less than --replicates 3"),
        ({**WORKLOAD, "confidence": "99%"}, "--confidence 0.99 goes with --until-confident or --budget"),
        ({**WORKLOAD, "request_rate": [2e9]}, "--request-rate: Input should be less than or equal to 100000"),
        ({**WORKLOAD, "until_ci": "3%", "request_rate": [2.0]}, "--until-ci is of speedups, and an open loop has none"),
        ({**WORKLOAD, "verification": "maybe"}, "--verification"),
        ({**WORKLOAD, "kv_cache": "much"}, "--kv-cache"),
        ({**WORKLOAD, "memory_fraction": 1.5}, "--memory-fraction"),
        ({**WORKLOAD, "baseline": "none"}, "--baseline"),
        ({**WORKLOAD, "tensor_parallel": 4, "gpu_price": 2.0}, "on 4 GPUs and 1 is priced: --gpu-count 4"),
        ({**WORKLOAD, "method": ["lookahead"]}, "unknown method 'lookahead'"),
        ({**WORKLOAD, "method": ["draft_model"]}, "needs a drafter: --drafter draft_model=DIRECTORY"),
        ({**WORKLOAD, "drafter": {"ngram": "x"}}, "takes no drafter"),
        ({**WORKLOAD, "drafter": {"draft_model": "x"}}, "not among the methods"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_flag(overrides: dict[str, object], sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence) as caught:
        load_config(None, overrides)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("workload: x.jsonl\ngama: 4\n", "unknown option 'gama'. Known: .*gamma"),
        ("workload: [\n", "not valid YAML"),
        ("- a\n- b\n", "is a mapping of options; got a list"),
        ("workload: x.jsonl\nrepeats: many\n", "sweep.yaml: repeats: .*; got 'many'"),
        ("workload: x.jsonl\ngamma: 2\ngamma: 4\n", "sweep.yaml:3: 'gamma' is given twice"),
        ("workload: x.jsonl\ndrafter: {eagle3: a, eagle3: b}\n", "sweep.yaml:2: 'eagle3' is given twice"),
        ("workload: x.jsonl\nmax_tokens: yes\n", "sweep.yaml: max_tokens: .*; got True"),
        ("workload: x.jsonl\ngamma: [on]\n", "sweep.yaml: gamma: .*; got True"),
        ("workload: x.jsonl\ntemperature: yes\n", "sweep.yaml: temperature: expected a number; got True"),
        ("workload: x.jsonl\nkv_cache: yes\n", "sweep.yaml: kv_cache: expected a number; got True"),
        ("workload: x.jsonl\nready_timeout: .inf\n", "sweep.yaml: ready_timeout: .*finite number; got inf"),
        ("workload: x.jsonl\nready_timeout: yes\n", "sweep.yaml: ready_timeout: expected a number; got True"),
        ("workload: x.jsonl\n1: 2\n", "sweep.yaml: 1: "),
    ],
)
def test_a_mistake_in_a_file_names_the_file(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    with pytest.raises(SpecbenchError, match=sentence) as caught:
        load_config(path, {})
    assert str(path) in str(caught.value)


def test_a_file_says_times_and_homes_as_the_command_line_does(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text("workload: ~/x.jsonl\nready_timeout: 10m\nrequest_timeout: 1800\ntokens_per_month: 1e9\n")
    config = load_config(path, {})
    assert config.workload == (Path.home() / "x.jsonl",)
    assert (config.ready_timeout, config.request_timeout, config.tokens_per_month) == (600, 1800, 1e9)


def test_a_date_for_the_template_is_the_text_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text("workload: x.jsonl\nchat_template_kwargs: {date_string: 2024-07-26, other: 2024-99-99}\n")
    assert load_config(path, {}).chat_template_kwargs == {"date_string": "2024-07-26", "other": "2024-99-99"}


@given(st.one_of(st.integers(), st.floats(), st.booleans(), st.text(), st.none(), st.lists(st.integers())))
def test_whatever_a_field_is_given_the_answer_is_a_configuration_or_a_sentence(value: object) -> None:
    for field in SweepConfig.model_fields:
        with suppress(SpecbenchError):
            assert isinstance(load_config(None, {**WORKLOAD, field: value}), SweepConfig)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(SpecbenchError, match=r"nowhere\.yaml: No such file"):
        load_config(Path("nowhere.yaml"), {})


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[2].glob("configs/*.yaml")), ids=lambda p: p.name)
def test_every_shipped_configuration_is_valid_and_its_workloads_exist(path: Path) -> None:
    config = load_config(path, {})
    assert isinstance(config, SweepConfig)
    assert all((path.parents[1] / workload).is_file() for workload in config.workload)
