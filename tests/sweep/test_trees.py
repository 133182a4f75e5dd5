"""A sweep over drafts that branch and over ways of verifying: each an arm of its own, typical acceptance marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specbench.backends import get_backend
from specbench.backends.base import Command, EngineOptions
from specbench.backends.lossy import lossy_command, typical_clause
from specbench.errors import SpecbenchError
from specbench.speculation import Speculation
from specbench.sweep.config import SweepConfig
from specbench.sweep.config_file import load_config
from specbench.sweep.launch import check_options, make_launch, refuse_lossy


def config(**changes: Any) -> SweepConfig:
    drafted = {"method": ["eagle3"], "drafter": {"eagle3": "demo"}, "gamma": [3], "tree": ["8x60"]}
    return load_config(None, {"workload": ["chat.jsonl"], **drafted, **changes})


def command(wanted: SweepConfig, arm: Speculation) -> Command:
    return get_backend("reference").command(make_launch(wanted, arm, Path("t"), {"eagle3": Path("d")}, EngineOptions()))


def test_chains_and_trees_are_arms_side_by_side_and_other_methods_keep_chains() -> None:
    wanted = config(method=["eagle3", "ngram"], tree=["chain", "8x60", "static:4x2x1"])
    assert [(arm.name, arm.label) for arm in wanted.speculations()] == [
        ("none", "none"),
        ("eagle3", "eagle3-g3"),
        ("eagle3-8x60", "eagle3-g3-8x60"),
        ("eagle3-static-4x2x1", "eagle3-g3-static-4x2x1"),
        ("ngram", "ngram-g3"),
    ]


def test_the_reference_decoder_is_told_of_trees_and_of_nothing_where_there_is_none() -> None:
    plain, tree = (command(config(), arm) for arm in config().speculations())
    assert "--tree" not in plain.argv
    assert tree.argv[tree.argv.index("--tree") + 1] == "8x60"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tree": ["8by60"]}, "--tree: expected chain, 8x60 .*got"),
        ({"method": ["ngram"], "drafter": {}}, "--tree is for eagle3.*: the other methods draft chains"),
        ({"tree": ["static:4x2"]}, "this tree is 2 deep, and gamma is the depth: 2, not 3"),
        ({"verification": "block"}, "block verification is of chains"),
        ({"acceptance": "synthetic:0.8"}, "made up for chains alone"),
    ],
)
def test_trees_that_cannot_be_are_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        config(**changes)


@pytest.mark.parametrize("backend", ["vllm", "sglang", "simulated"])
def test_engines_with_drafts_of_their_own_refuse(backend: str) -> None:
    with pytest.raises(SpecbenchError, match=f"the {backend} backend drafts as its engine does"):
        check_options(config(backend=backend), get_backend(backend))


def test_a_tree_has_no_end_where_the_drafter_is_unsure() -> None:
    (_, arm) = config(gamma=["adaptive:confidence"]).speculations()
    with pytest.raises(SpecbenchError, match="leave --tree or --gamma adaptive:confidence out"):
        get_backend("reference").check(arm)
    with pytest.raises(SpecbenchError, match="suffix drafts chains, no trees"):
        get_backend("reference").check(Speculation.of("suffix", 3, tree="8x60"))


def test_typical_acceptance_is_in_the_arms_name_and_its_baseline_is_exact() -> None:
    wanted = config(verification="typical")
    plain, tree = wanted.speculations()
    assert (plain.name, tree.name, tree.label) == ("none", "eagle3-8x60-typical", "eagle3-g3-8x60-typical")
    assert tree.is_lossy
    assert lossy_command(command(wanted, plain), temperature=0.8) == ()
    assert lossy_command(command(wanted, tree), temperature=0.8) == (typical_clause(),)


def test_typical_acceptance_passes_where_it_was_asked_for_by_name() -> None:
    refuse_lossy([typical_clause()], config(verification="typical"))
    with pytest.raises(SpecbenchError, match="verification is typical"):
        refuse_lossy([typical_clause()], config())


def test_block_verification_is_exact_and_the_reference_decoders() -> None:
    wanted = config(verification="block", tree=["chain"])
    _, arm = wanted.speculations()
    assert not arm.is_lossy
    assert lossy_command(command(wanted, arm), temperature=0.8) == ()
    launch = make_launch(wanted, Speculation.of("ngram", 3), Path("t"), {}, EngineOptions())
    with pytest.raises(SpecbenchError, match="vLLM has no block verification"):
        get_backend("vllm").command(launch)
