"""Switches that trade the target's own outputs for speed are found, whatever they are called."""

from __future__ import annotations

from typing import Any

import pytest

from specbench.backends.base import Command
from specbench.backends.lossy import lossy_command, lossy_settings, lossy_variables

LOSSY: list[tuple[dict[str, Any], str]] = [
    ({"speculative_accept_threshold_single": 0.9}, "the target would refuse"),
    ({"speculative_accept_threshold_acc": "0.5"}, "the target would refuse"),
    ({"acceptance": "synthetic:0.8"}, "made up"),
    ({"verification": "typical"}, "typical acceptance"),
    ({"speculative_config": {"rejection_sample_method": "synthetic"}}, "made up"),
    ({"speculative_config": {"synthetic_acceptance_length": 3.5}}, "made up"),
    ({"speculative_config": {"synthetic_acceptance_rates": [0.9, 0.5]}}, "made up"),
    ({"spec_decoding_acceptance_method": "typical_acceptance_sampler"}, "typical acceptance"),
    ({"speculative_config": {"posterior_threshold": 0.09}}, "typical acceptance"),
    ({"speculative_config": {"use_relaxed_acceptance_for_thinking": True}}, "first few"),
    ({"speculative_config": {"relaxed_topk": 10}}, "first few"),
    ({"speculative_config": {"relaxed_delta": 0.6}}, "first few"),
    ({"internal_states": [{"speculative_accept_threshold_single": 0.7}]}, "the target would refuse"),
]
EXACT: list[dict[str, Any]] = [
    {},
    {"speculative_accept_threshold_single": 1.0, "speculative_accept_threshold_acc": "1.0"},
    {"speculative_config": {"rejection_sample_method": "standard", "draft_sample_method": "greedy"}},
    {"speculative_config": {"rejection_sample_method": "block", "synthetic_acceptance_length": None}},
    {"speculative_config": {"posterior_threshold": None, "relaxed_topk": 1, "relaxed_delta": 0.0}},
    {"speculative_config": {"use_relaxed_acceptance_for_thinking": False}},
    {"temperature": 0.5, "states": ["a", 1]},
    {"acceptance": None, "verification": "block"},
]


@pytest.mark.parametrize(("settings", "why"), LOSSY)
def test_a_lossy_setting_is_named_with_its_consequence(settings: dict[str, Any], why: str) -> None:
    [clause] = lossy_settings(settings, temperature=0.0)
    assert why in clause


@pytest.mark.parametrize("settings", EXACT)
def test_exact_settings_pass(settings: dict[str, Any]) -> None:
    assert lossy_settings(settings, temperature=0.8) == ()


@pytest.mark.parametrize("settings", [{"allow_advanced_sampling": False}, {"greedy_sampling": True}])
def test_greedy_verification_is_lossy_only_where_sampling_was_asked_for(settings: dict[str, bool]) -> None:
    assert lossy_settings(settings, temperature=0.0) == ()
    assert len(lossy_settings(settings, temperature=0.8)) == 1


@pytest.mark.parametrize("value", ["3.5", "1"])
def test_simulated_acceptance_in_the_environment_is_found(value: str) -> None:
    [clause] = lossy_variables({"SGLANG_SIMULATE_ACC_LEN": value, "PATH": "/bin"})
    assert clause == f"SGLANG_SIMULATE_ACC_LEN={value} makes up the acceptance"


def test_an_environment_without_it_passes() -> None:
    assert lossy_variables({"SGLANG_SIMULATE_ACC_LEN": "0", "SGLANG_LOG_LEVEL": "1"}) == ()


@pytest.mark.parametrize(
    "command",
    [
        Command(("serve", "--speculative-accept-threshold-single", "0.9", "--port", "1")),
        Command(("serve", "--speculative-accept-threshold-single=0.9")),
        Command(("serve", "--speculative-config", '{"method":"eagle3","rejection_sample_method":"synthetic"}')),
        Command(("serve",), env={"SGLANG_SIMULATE_ACC_LEN": "2"}),
        Command(("serve",), files={"extra.yaml": "speculative_config:\n  relaxed_topk: 10\n"}),
    ],
    ids=["flag and value", "flag=value", "JSON", "environment", "file"],
)
def test_a_lossy_command_is_known_before_it_is_started(command: Command) -> None:
    assert len(lossy_command(command, temperature=0.0)) == 1


@pytest.mark.parametrize(
    "argv",
    [
        ("serve", "--speculative-config", '{"method":"ngram","num_speculative_tokens":4}', "--enforce-eager"),
        ("serve", "--chat-template", "{% not json %}", "--speculative-accept-threshold-single"),
    ],
)
def test_an_exact_command_passes(argv: tuple[str, ...]) -> None:
    assert lossy_command(Command(argv, files={"template.jinja": "{% x %}"}), temperature=0.0) == ()
