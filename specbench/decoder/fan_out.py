"""How many guesses to prepare for each outcome of a verification (speculative speculative decoding). Without torch."""

from __future__ import annotations

_EXPONENT = 1.0
"""r of the miss rate after F guesses, F^-r: an assumption, there being no guesses yet to learn it from."""


def fan_out(budget: int, gamma: int, alpha: float) -> tuple[int, ...]:
    """Guesses of the token that follows k accepted ones, for k = 0..gamma: `budget` in all, at least one each.

    alpha: the acceptance rate, 0..1. That k are kept has the probability α^k (1 - α), or α^γ for all of them; with a
    miss rate of F^-r the sum of misses is least where F_k ∝ α^(k/(1+r)), and F_γ ∝ (α^γ / (1 - α))^(1/(1+r)) (Lagrange;
    Kumar, Dao and May, "Speculative speculative decoding", 2026). Fractions go to the largest remainders.
    """
    alpha = min(max(alpha, 0.01), 0.99)
    power = 1 / (1 + _EXPONENT)
    shares = [alpha ** (k * power) for k in range(gamma)] + [(alpha**gamma / (1 - alpha)) ** power]
    free = budget - (gamma + 1)
    if free < 0:
        raise ValueError(f"{budget} guesses are too few for {gamma + 1} outcomes.")
    exact = [share / sum(shares) * free for share in shares]
    counts = [int(x) for x in exact]
    for k in sorted(range(gamma + 1), key=lambda k: counts[k] - exact[k])[: free - sum(counts)]:
        counts[k] += 1
    return tuple(1 + count for count in counts)
