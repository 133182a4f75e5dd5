"""A sweep over made-up acceptance: asked for by name, heeded by engines that can, never taken for the real thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specbench.backends import get_backend
from specbench.backends.base import EngineOptions
from specbench.backends.lossy import lossy_command, synthetic_clause
from specbench.errors import SpecbenchError
from specbench.sweep.config import SweepConfig
from specbench.sweep.config_file import load_config
from specbench.sweep.launch import check_options, make_launch, refuse_lossy


def config(**changes: Any) -> SweepConfig:
    return load_config(None, {"workload": ["chat.jsonl"], "acceptance": "synthetic:0.8", **changes})


def test_arms_are_called_synthetic_and_the_baseline_is_not() -> None:
    plain, ngram = config().speculations()
    assert (plain.name, plain.label) == ("none", "none")
    assert (ngram.name, ngram.label, ngram.synthetic) == ("ngram-synthetic", "ngram-g4-synthetic", "0.8")


def test_the_reference_decoder_is_told_in_every_arm_but_the_baseline() -> None:
    backend, wanted = get_backend("reference"), config(acceptance="synthetic:0.9,0.5", gamma=[2])
    plain, ngram = (
        backend.command(make_launch(wanted, arm, Path("t"), {}, EngineOptions())) for arm in wanted.speculations()
    )
    assert "--acceptance" not in plain.argv
    assert ngram.argv[ngram.argv.index("--acceptance") + 1] == "synthetic:0.9,0.5"
    assert lossy_command(ngram, temperature=0.0) == (synthetic_clause("synthetic:0.9,0.5"),)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"acceptance": "0.8"}, r"--acceptance: expected synthetic:0\.8, or one rate per draft position"),
        ({"acceptance": "synthetic:2"}, r"each from 0 to 1; got 'synthetic:2'"),
        ({"acceptance": "synthetic:0.9,0.5", "gamma": [2, 4]}, "2 acceptance rates for drafts of 4 tokens"),
    ],
)
def test_rates_that_mean_nothing_are_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        config(**changes)


@pytest.mark.parametrize("backend", ["vllm", "simulated"])
def test_engines_that_cannot_make_it_up_refuse(backend: str) -> None:
    with pytest.raises(SpecbenchError, match=f"--acceptance means nothing to the {backend} backend"):
        check_options(config(backend=backend), get_backend(backend))


def test_what_was_asked_for_passes_and_other_lossy_settings_do_not() -> None:
    asked = synthetic_clause("synthetic:0.8")
    refuse_lossy([asked], config())
    with pytest.raises(SpecbenchError, match="relaxed_topk is 10") as error:
        refuse_lossy([asked, "relaxed_topk is 10: drafts among the target's first few are accepted"], config())
    assert asked not in str(error.value)
    with pytest.raises(SpecbenchError, match="it is made up"):
        refuse_lossy([asked], config(acceptance=None))
