"""A sweep over rules that set gamma: arms of their own, told to the reference decoder, refused for other engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specbench.backends import get_backend
from specbench.backends.base import EngineOptions, check_adaptive
from specbench.cli.options import gammas
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.speculation import Speculation
from specbench.sweep.config import SweepConfig
from specbench.sweep.config_file import load_config, save_config
from specbench.sweep.launch import make_launch

WRITTEN = "adaptive:threshold,adaptive:goodput+max=5,schedule:1=4+9=0,3,1"


def config(**changes: Any) -> SweepConfig:
    return load_config(None, {"workload": ["chat.jsonl"], "gamma": gammas(WRITTEN, "--gamma"), **changes})


def test_rules_are_arms_beside_fixed_gammas(tmp_path: Path) -> None:
    _, *arms = config().speculations()
    assert [(arm.name, arm.gamma, arm.label) for arm in arms] == [
        ("ngram", 1, "ngram-g1"),
        ("ngram", 3, "ngram-g3"),
        ("ngram-threshold", 7, "ngram-threshold"),
        ("ngram-goodput", 5, "ngram-goodput+max=5"),
        ("ngram-schedule", 4, "ngram-g1=4+9=0"),
    ]
    save_config(config(), tmp_path / "saved.yaml")
    assert load_config(tmp_path / "saved.yaml", {}) == config()


def test_the_reference_decoder_is_told_the_rule() -> None:
    backend = get_backend("reference")
    told = []
    for arm in config().speculations():
        backend.check(arm)
        check_adaptive(backend, arm)
        argv = backend.command(make_launch(config(), arm, Path("t"), {}, EngineOptions())).argv
        told.append(argv[argv.index("--gamma") + 1])
    assert told == ["0", "1", "3", "adaptive:threshold", "adaptive:goodput+max=5", "schedule:1=4+9=0"]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "simulated"])
def test_other_engines_refuse_a_rule(engine: str) -> None:
    with pytest.raises(UnsupportedSpeculation, match="--gamma adaptive:goodput is a rule of the reference decoder"):
        check_adaptive(get_backend(engine), Speculation.of("ngram", "adaptive:goodput"))
    check_adaptive(get_backend(engine), Speculation.of("ngram", 4))


def test_lookups_have_no_confidence() -> None:
    with pytest.raises(
        UnsupportedSpeculation, match="ngram does not stop where it is unsure, as adaptive:confidence asks"
    ):
        get_backend("reference").check(Speculation.of("ngram", "adaptive:confidence"))
    get_backend("reference").check(Speculation.of("eagle3", "adaptive:confidence", "head"))


@pytest.mark.parametrize(
    ("gamma", "sentence"),
    [
        (["adaptive:best"], "--gamma: no adaptive rule 'best'. There are: adaptive:threshold, adaptive:goodput"),
        (["adaptive:goodput+max=0"], "--gamma: adaptive:goodput: max must be at least 1"),
        (["adaptive:threshold", "adaptive:threshold+max=5"], "--gamma: one adaptive:threshold at a time"),
    ],
)
def test_a_mistake_is_one_sentence(gamma: list[str], sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        config(gamma=gamma)


def test_made_up_acceptance_needs_rates_for_a_rules_longest_draft() -> None:
    with pytest.raises(SpecbenchError, match="2 acceptance rates for drafts of 7 tokens"):
        config(gamma=["adaptive:threshold"], acceptance="synthetic:0.9,0.5")


def test_an_arm_whose_gamma_is_not_its_rules_is_refused() -> None:
    with pytest.raises(SpecbenchError, match="the largest gamma of threshold is not 4"):
        Speculation("ngram", 4, adaptive="threshold")
