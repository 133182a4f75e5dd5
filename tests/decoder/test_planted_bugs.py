"""The battery of `specbench verify` on the real engine: every planted bug is found, the correct decoder passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from planted import BUGS, probabilities, sample
from transformers import LlamaForCausalLM

from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.sampling import SamplingParams
from specbench.equivalence.sampling.battery import TESTS_PER_ARM, ArmResult, Evidence, control, run_battery
from specbench.equivalence.sampling.observations import Draw, Known, Tokens
from specbench.equivalence.sampling.places import crowded, whole_outputs
from specbench.equivalence.sampling.support import outside
from specbench.equivalence.sampling.verdict import judge

VOCAB, CONTEXTS, WIDTH = 500, 4, 6
PARAMS = SamplingParams(temperature=0.8, top_p=0.9)
LEVEL = 1e-3

DRAWS = {
    "residual from the target": 450,
    "residual (q - p)+": 120,
    "acceptance inverted": 120,
    "always accept": 120,
    "bonus from the draft": 120,
    "accept u < p": 200,
    "draft temperature and top-p ignored in the ratio": 450,
    "stale KV in 30 % of steps": 250,
    "the target's top-p missing": 120,
}
"""Draws at each of 4 contexts that find the bug; a default run makes 500 at each of 8."""

FOUND_BY = {
    "residual from the target": "token frequencies",
    "bonus from the draft": "bonus token",
    "stale KV in 30 % of steps": "PIT, chi-square",
    "the target's top-p missing": "support",
}
"""The test that is there for the bug."""


@pytest.fixture(scope="module")
def models(save_llama: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target whose next token is open (2.4 nats in the median), and a draft that agrees with it about 0.6 of the
    time: the target with noise on its weights."""
    target = save_llama(
        seed=1, vocab_size=VOCAB, num_hidden_layers=2, initializer_range=0.5, eos_token_id=None, bos_token_id=None
    )
    draft = tmp_path_factory.mktemp("noisy")
    model = LlamaForCausalLM.from_pretrained(target)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.025 * torch.randn(weights.shape, generator=generator))
    model.save_pretrained(draft)
    return target, draft


@pytest.fixture(scope="module")
def contexts() -> list[Tokens]:
    generator = torch.Generator().manual_seed(3)
    return [tuple(torch.randint(0, VOCAB, (6,), generator=generator).tolist()) for _ in range(CONTEXTS)]


@pytest.fixture(scope="module")
def baseline(models: tuple[Path, Path], contexts: list[Tokens]) -> list[Draw]:
    plain = load_engine(models[0], max_batch_size=200, max_model_len=64)
    return sample(plain, contexts, 200, WIDTH, SamplingParams(PARAMS.temperature, top_p=PARAMS.top_p, seed=10**6))


def speculative(models: tuple[Path, Path], gamma: int) -> Engine:
    target, draft = models
    return load_engine(target, method="draft_model", gamma=gamma, drafter=draft, max_batch_size=200, max_model_len=64)


def known_at(models: tuple[Path, Path], contexts: list[Tokens], draws: list[Draw], baseline: list[Draw]) -> Known:
    places = dict.fromkeys([*crowded([draws, baseline]), *whole_outputs(draws, 800)])
    return probabilities(models[0], contexts, list(places), PARAMS)


def battery(
    models: tuple[Path, Path], contexts: list[Tokens], baseline: list[Draw], count: int, gamma: int = 1, seed: int = 0
) -> ArmResult:
    own = SamplingParams(PARAMS.temperature, top_p=PARAMS.top_p, seed=seed)
    draws = sample(speculative(models, gamma), contexts, count, WIDTH, own)
    known = known_at(models, contexts, draws, baseline)
    _, suspects = outside(draws, known, Draw.stepped)
    hair_more = SamplingParams(PARAMS.temperature, top_p=PARAMS.top_p + 1e-3)
    wider = probabilities(models[0], contexts, list(dict.fromkeys(place for place, _ in suspects)), hair_more)
    return run_battery(Evidence(draws, baseline, known, wider), LEVEL / TESTS_PER_ARM, seed)


@pytest.mark.parametrize("gamma", [1, 2])
def test_the_correct_decoder_passes_and_says_what_it_would_have_found(
    models: tuple[Path, Path], contexts: list[Tokens], baseline: list[Draw], gamma: int
) -> None:
    arm = battery(models, contexts, baseline, 500, gamma)
    verdict = judge({"arm": arm}, LEVEL, find_tv=0.15)
    assert verdict.outcome == "EQUIVALENT", verdict.reason
    assert all(test.p is not None for test in arm.tests)
    assert arm.likelihood is not None
    assert arm.likelihood.is_equivalent
    assert verdict.detectable is not None
    assert verdict.detectable < 0.15


@pytest.mark.parametrize("bug", DRAWS)
def test_a_planted_bug_is_found(
    models: tuple[Path, Path],
    contexts: list[Tokens],
    baseline: list[Draw],
    bug: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        BUGS[bug](patch)
        own = SamplingParams(PARAMS.temperature, top_p=PARAMS.top_p)
        draws = sample(speculative(models, gamma=1), contexts, DRAWS[bug], WIDTH, own)
    known = known_at(models, contexts, draws, baseline)
    arm = run_battery(Evidence(draws, baseline, known, {}), LEVEL / TESTS_PER_ARM)
    verdict = judge({"arm": arm}, LEVEL, find_tv=0.2)
    assert verdict.outcome == "NOT EQUIVALENT"
    assert FOUND_BY.get(bug, "") in verdict.reason


def test_plain_draws_follow_the_processed_log_probabilities_and_not_the_raw_ones(
    models: tuple[Path, Path], contexts: list[Tokens], baseline: list[Draw]
) -> None:
    """The control: a server whose log-probabilities are those before temperature and top-p is noticed."""
    places = crowded([baseline])
    processed = probabilities(models[0], contexts, places, PARAMS)
    raw = probabilities(models[0], contexts, places, SamplingParams())
    assert (control(baseline, processed, LEVEL).p or 0) > LEVEL
    assert (control(baseline, raw, LEVEL).p or 0) < 1e-9
