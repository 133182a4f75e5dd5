"""The engine, speculating, samples from the target's own distribution: checked against exact enumeration."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import heads
import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import LlamaForCausalLM

from specbench.decoder.drafters import choose
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams, Warp, warp
from specbench.decoder.tree_shape import DynamicTree

VOCAB, SAMPLES, LENGTH = 6, 4_000, 3
# Whatever token comes first, its pair with the last one stands in the prompt, so that n-gram lookup has a draft.
PROMPT = [2, 0, 2, 1, 2, 2, 2, 3, 2, 4, 2, 5, 2]
PLAIN = SamplingParams(temperature=0.9, max_tokens=LENGTH)
NUCLEUS = SamplingParams(temperature=1.3, top_k=4, top_p=0.85, max_tokens=LENGTH)


@pytest.fixture(scope="module")
def make(save_llama: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Engine]:
    """An engine over a target of six tokens, with an unrelated model as its draft, or random heads."""
    shape = {
        "vocab_size": VOCAB,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "eos_token_id": None,
        "initializer_range": 0.5,
    }
    target, draft = save_llama(seed=1, num_hidden_layers=3, **shape), save_llama(seed=2, num_hidden_layers=1, **shape)
    config, folder = json.loads((target / "config.json").read_text()), tmp_path_factory.mktemp("heads")
    tensors = {
        "eagle": heads.eagle_tensors(config),
        "medusa": heads.medusa_tensors(config, 2),
        "mtp": heads.speculators(heads.mtp_tensors(config)),
    }
    drafters = {method: heads.save(folder / method, tensors[method], config, method) for method in tensors}
    drafters["draft_model"] = drafters["ssd"] = draft

    def make(method: str, verification: str) -> Engine:
        name, branches, _ = method.partition(" in trees")
        return load_engine(
            target,
            method=name,
            gamma=0 if method == "none" else 2,
            drafter=drafters.get(name),
            tree=DynamicTree(3, 5) if branches else None,
            max_batch_size=200,
            max_model_len=32,
            verification=verification,  # type: ignore[arg-type]
        )

    make.target = target  # type: ignore[attr-defined]
    return make


@torch.inference_mode()
def exact(target: Path, params: SamplingParams) -> dict[tuple[int, ...], float]:
    """P of every continuation of LENGTH tokens, by transformers' logits."""
    texts = list(itertools.product(range(VOCAB), repeat=LENGTH))
    logits = LlamaForCausalLM.from_pretrained(target)(torch.tensor([PROMPT + list(text) for text in texts])).logits
    probs = warp(logits[:, len(PROMPT) - 1 : -1], Warp.stack([params] * len(texts)))
    each = probs.gather(2, torch.tensor(texts)[:, :, None])[:, :, 0]
    return dict(zip(texts, each.double().prod(1).tolist(), strict=True))


def sample(engine: Engine, params: SamplingParams) -> Counter[tuple[int, ...]]:
    """Continuations drawn by the engine, one seed each."""
    texts: dict[str, list[int]] = {str(seed): [] for seed in range(SAMPLES)}
    for seed in range(SAMPLES):
        own = SamplingParams(params.temperature, params.top_k, params.top_p, seed, LENGTH)
        engine.add(Request(str(seed), PROMPT, own))
    while engine.has_work:
        for output in engine.step():
            texts[output.request_id] += output.token_ids
    return Counter(tuple(text) for text in texts.values())


def p_value(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Chi-square; continuations too rare for it are pooled into one."""
    common = [text for text, p in expected.items() if p * SAMPLES >= 5]
    assert len(common) > 12
    observed = np.array([counts[text] for text in common])
    probabilities = np.array([expected[text] for text in common])
    rest = 1 - probabilities.sum()
    if rest * SAMPLES >= 5:
        observed, probabilities = np.append(observed, SAMPLES - observed.sum()), np.append(probabilities, rest)
    return float(chisquare(observed, probabilities / probabilities.sum() * observed.sum()).pvalue)


@pytest.mark.parametrize(
    ("method", "verification", "params"),
    [
        ("none", "rejection", PLAIN),
        ("none", "coupled", NUCLEUS),
        ("ngram", "rejection", PLAIN),
        ("ngram", "coupled", NUCLEUS),
        ("suffix", "rejection", PLAIN),
        ("draft_model", "rejection", PLAIN),
        ("draft_model", "rejection", NUCLEUS),
        ("draft_model", "coupled", PLAIN),
        ("medusa", "rejection", NUCLEUS),
        ("mtp", "rejection", NUCLEUS),
        ("draft_model", "block", NUCLEUS),
        ("ssd", "rejection", PLAIN),
        ("ssd", "block", NUCLEUS),
        ("layer_skip", "rejection", NUCLEUS),
        ("eagle in trees", "rejection", NUCLEUS),
    ],
)
def test_the_first_three_tokens_have_the_targets_distribution(
    make: Callable[..., Engine], method: str, verification: str, params: SamplingParams
) -> None:
    engine = make(method, verification)
    expected = exact(make.target, params)  # type: ignore[attr-defined]
    counts = sample(engine, params)
    assert all(expected[text] > 0 for text in counts)
    assert p_value(counts, expected) > 1e-3
    if method != "none":
        assert 0 < engine.counters.accepted < engine.counters.drafted


def test_drafts_that_were_not_drawn_from_the_reported_probabilities_are_found_out(
    make: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "draw", lambda probs, noise: probs.argmax(-1))
    counts = sample(make("draft_model", "rejection"), PLAIN)
    assert p_value(counts, exact(make.target, PLAIN)) < 1e-6  # type: ignore[attr-defined]
