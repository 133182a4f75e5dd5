"""A scenario file: what it may hold, and what is said of a mistake."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from specbench.errors import SpecbenchError
from specbench.simulated.scenario import (
    Acceptance,
    Category,
    Counters,
    Degenerate,
    Drafting,
    Fault,
    Output,
    Prefill,
    Scenario,
    StepTime,
    Streaming,
    load_scenario,
)

SHIPPED = sorted((Path(__file__).parents[2] / "configs" / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("step: {weight_ms: 3}", "step.weight_ms is not a setting of a scenario"),
        ("drafting: {acceptance: {alpha: 1.2}}", "drafting.acceptance.alpha: input should be less than or equal to 1"),
        ("drafting: {acceptance: {alpha: .5, conditional: [.5]}}", "drafting.acceptance: give either alpha or"),
        ("drafting: {by_category: [{pattern: '(', alpha: .5}]}", "pattern: not a regular expression"),
        ("faults: [{kind: crash}]", r"faults\.0: give either request"),
        ("methods: {eagel3: {found: .5}}", "methods: unknown method 'eagel3'. Choose from: none, ngram"),
        ("step: {weights_ms: yes}", "step.weights_ms: expected a number"),
        ("counters: {ranks: on}", "counters.ranks: expected a number"),
        ("counters: {ranks: 2000}", "counters.ranks: input should be less than or equal to 1024; got 2000"),
        ("counters: {foreign_steps: 1e9}", "counters.foreign_steps: input should be less than or equal to 1000"),
        ("engine: llama", "engine: input should be 'vllm', 'sglang' or 'tensorrt_llm'; got 'llama'"),
        ("streaming: {tokens_per_event: 0}", "streaming.tokens_per_event"),
        ("seed: 1\nseed: 2", ":2: 'seed' is given twice"),
        ("[1, 2]", "is a mapping"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_field(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(SpecbenchError, match=sentence) as caught:
        load_scenario(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match="No such file"):
        load_scenario(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_load_and_say_what_they_are(path: Path) -> None:
    scenario = load_scenario(path)
    assert scenario.name == path.stem
    assert scenario.description


def test_the_last_probability_stands_for_all_further_positions() -> None:
    assert Acceptance(conditional=(0.8, 0.6)).probabilities(4) == (0.8, 0.6, 0.6, 0.6)
    assert Acceptance(alpha=0.5).probabilities(2) == (0.5, 0.5)


def test_a_method_without_its_own_drafting_has_the_common_one() -> None:
    scenario = Scenario.model_validate({"methods": {"ngram": {"found": 0.3}}})
    assert scenario.drafting_of("ngram").found == 0.3
    assert scenario.drafting_of("eagle3") == scenario.drafting


def test_every_setting_and_fault_is_documented() -> None:
    document = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")
    parts = (
        Scenario,
        Acceptance,
        Category,
        Drafting,
        StepTime,
        Prefill,
        Output,
        Degenerate,
        Streaming,
        Counters,
        Fault,
    )
    names = {name for part in parts for name in part.model_fields} | set(
        get_args(Fault.model_fields["kind"].annotation)
    )
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", document)) == []
