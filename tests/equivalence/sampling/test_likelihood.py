"""TOST: says yes only with enough tokens and no more than the margin off."""

from __future__ import annotations

import numpy as np
import pytest

from specbench.equivalence.sampling.likelihood import check
from specbench.equivalence.sampling.observations import Distribution, Draw

P = np.array([0.5, 0.2, 0.1, 0.1, 0.06, 0.04])
KNOWN = {(0, (0,)): Distribution(tuple(range(6)), tuple(map(float, P)))}


def drawn(n: int, f: np.ndarray, seed: int = 0) -> list[Draw]:
    return [Draw(0, (0, int(token))) for token in np.random.default_rng(seed).choice(6, n, p=f)]


def sigma() -> float:
    logs = np.log(P)
    return float(np.sqrt(P @ (logs - P @ logs) ** 2))


def tokens_needed() -> int:
    needed = check(drawn(1_000, P), KNOWN, Draw.stepped).tokens_needed
    assert needed is not None
    return needed


def test_the_formula_of_the_sample_size() -> None:
    assert tokens_needed() == pytest.approx((sigma() * (1.645 + 2.576) / 0.05) ** 2, rel=1e-3)


def test_with_the_tokens_of_the_formula_the_target_is_shown_equal() -> None:
    n = tokens_needed()
    shown = [check(drawn(n, P, seed), KNOWN, Draw.stepped).is_equivalent for seed in range(100)]
    assert np.mean(shown) > 0.95
    assert not check(drawn(n // 20, P), KNOWN, Draw.stepped).is_equivalent


def test_a_sampler_at_the_margin_is_called_equal_in_one_of_twenty() -> None:
    logs = np.log(P)
    towards = P * (logs - P @ logs)
    f = P + 0.05 * towards / (towards @ logs)  # mean log-likelihood exactly the margin off
    n = tokens_needed()
    shown = [check(drawn(n, f, seed), KNOWN, Draw.stepped).is_equivalent for seed in range(300)]
    assert np.mean(shown) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_the_difference_is_signed_and_has_its_error() -> None:
    greedy = np.array([1.0, 0, 0, 0, 0, 0])
    found = check(drawn(500, greedy), KNOWN, Draw.stepped)
    assert found.difference == pytest.approx(np.log(0.5) - P @ np.log(P))
    assert found.error == pytest.approx(sigma() / np.sqrt(500))
