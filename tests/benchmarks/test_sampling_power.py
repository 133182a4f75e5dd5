"""The table of draws: its closed forms are what the planted verifiers really emit, and its draws find them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "tests" / "decoder")]

import sampling_power  # noqa: E402
from planted import VERIFIERS, verify_rejection  # noqa: E402
from scipy import stats  # noqa: E402

from specbench.decoder import noise  # noqa: E402
from specbench.decoder.sampling import draw  # noqa: E402

CLOSED_FORMS = {
    "residual drawn from the target": VERIFIERS["residual from the target"],
    "residual (q-p)+": VERIFIERS["residual (q - p)+"],
    "acceptance inverted": VERIFIERS["acceptance inverted"],
    "always accept, or bonus from the draft": VERIFIERS["always accept"],
    "accept u < p (no ratio)": VERIFIERS["accept u < p"],
    "draft temperature/top-p ignored in the ratio": verify_rejection,
    "none": verify_rejection,
}


@pytest.fixture(scope="module")
def pair() -> dict[str, np.ndarray]:
    return next(sampling_power.pairs(np.random.default_rng(8), 1))


def first_tokens(bug: str, pair: dict[str, np.ndarray], rows: int, seed: int) -> np.ndarray:
    """[5000] counts of the first token of a step at one context, gamma 1, vocabulary 5,000"""
    p, q, q_raw = (torch.tensor(pair[name], dtype=torch.float32) for name in ("p", "q", "q raw"))
    counts = np.zeros(len(p))
    for begin in range(0, rows, 2_000):
        seeds = torch.arange(begin, min(begin + 2_000, rows)) + 1_000_003 * seed
        positions = torch.arange(2).expand(len(seeds), 2)
        draft = draw(q, noise.exponential(seeds, positions[:, :1], noise.DRAFT, len(p))[:, 0])[:, None]
        said = q_raw if bug == "draft temperature/top-p ignored in the ratio" else q
        verified = CLOSED_FORMS[bug](
            p.expand(len(seeds), 2, -1), said.expand(len(seeds), 1, -1), draft, seeds, positions
        )
        tokens = draft[:, 0].where(verified.accepted > 0, verified.next_token)
        counts += np.bincount(tokens.numpy(), minlength=len(p))
    return counts


@pytest.mark.parametrize("bug", CLOSED_FORMS)
def test_a_closed_form_is_what_the_planted_verifier_emits(bug: str, pair: dict[str, np.ndarray]) -> None:
    f = sampling_power.biased(bug, pair)
    counts = first_tokens(bug, pair, 6_000, seed=1)
    common = f > 2e-3
    observed, expected = (np.append(x[common], x[~common].sum()) for x in (counts, 6_000 * f / f.sum()))
    assert stats.chisquare(observed, expected).pvalue > 1e-4


@pytest.mark.parametrize("bug", [bug for bug in CLOSED_FORMS if bug != "none"])
def test_the_draws_of_the_table_find_the_bug(bug: str, pair: dict[str, np.ndarray]) -> None:
    """Power 0.99 at level 1e-4: of ten tries nine are found but with a probability of 0.004."""
    f = sampling_power.biased(bug, pair)
    n = sampling_power.draws_needed(pair["p"], f, 1e-4)
    possible = pair["p"] > 0
    found = 0
    for seed in range(10):
        counts = first_tokens(bug, pair, n, seed + 10)[possible]
        pooled = sampling_power.pool(counts, pair["p"][possible])
        found += sampling_power.g_tests(pooled.counts[None], pooled.probs)[0] < 1e-4
    assert found >= 9


def test_the_committed_result_says_what_the_battery_needs() -> None:
    result = json.loads(sampling_power.RESULT.read_text())
    assert {row["bug"] for row in result["bugs"]} == set(sampling_power.BUGS)
    for row in result["bugs"]:
        if row["detected at 0.0001"] is not None:
            assert row["detected at 0.0001"] >= 0.98
            assert row["draws at 0.001"]["median"] <= 1.3 * row["draws at 0.0001"]["median"]
    assert result["battery"]["not_equivalent"] <= 3  # of 500 verdicts at level 1e-3; more has a probability of 0.002
    alarms = result["g_test_false_alarms"]["n=400"]
    assert alarms["0.001"] < 0.0015
