"""Target and drafter as Markov chains over five tokens, small enough to enumerate, decoded some 100,000 rows at once.

`exactness` compares the joint distribution of their first tokens with the exact one by a likelihood-ratio test.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from specbench.decoder import noise
from specbench.decoder.sampling import draw
from specbench.decoder.verify import Verified

V, START, ROWS = 5, 0, 300_000
PASSES, FAILS = 1e-4, 1e-12

# [from, to]. Each row has a token that only one of the two models can emit.
TARGET = torch.tensor(
    [
        [0.05, 0.45, 0.10, 0.30, 0.10],
        [0.30, 0.00, 0.40, 0.10, 0.20],
        [0.10, 0.20, 0.10, 0.60, 0.00],
        [0.50, 0.05, 0.15, 0.10, 0.20],
        [0.00, 0.25, 0.25, 0.25, 0.25],
    ]
)
DRAFTER = torch.tensor(
    [
        [0.25, 0.30, 0.00, 0.15, 0.30],
        [0.10, 0.10, 0.50, 0.00, 0.30],
        [0.00, 0.30, 0.30, 0.20, 0.20],
        [0.35, 0.20, 0.05, 0.40, 0.00],
        [0.20, 0.00, 0.10, 0.50, 0.20],
    ]
)

Verifier = Callable[[Tensor, Tensor | None, Tensor, Tensor, Tensor], Verified]
# (newest token [B], seeds [B], positions [B, γ+1]) -> draft [B, γ], its distributions [B, γ, V] or None
Drafter = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor | None]]


def sampled(last: Tensor, seeds: Tensor, positions: Tensor, table: Tensor, stream: int) -> tuple[Tensor, Tensor]:
    tokens, probs = [last], []
    for position in positions[:, :-1].split(1, dim=1):
        probs.append(table[tokens[-1]])
        tokens.append(draw(probs[-1], noise.exponential(seeds, position, stream, V)[:, 0]))
    return torch.stack(tokens[1:], 1), torch.stack(probs, 1)


def most_likely(last: Tensor, seeds: Tensor, positions: Tensor) -> tuple[Tensor, None]:
    draft, _ = sampled(last, seeds, positions, torch.eye(V)[DRAFTER.argmax(1)], noise.DRAFT)
    return draft, None


def ragged(last: Tensor, seeds: Tensor, positions: Tensor, drafter: Drafter) -> tuple[Tensor, Tensor | None]:
    """Drafts of 0..γ tokens, by row and place."""
    draft, probs = drafter(last, seeds, positions)
    gamma = draft.shape[1]
    length = (seeds + positions[:, 0]) % (gamma + 1)
    return draft.where(torch.arange(gamma) < length[:, None], -1), probs


def nothing(last: Tensor, seeds: Tensor, positions: Tensor) -> tuple[Tensor, None]:
    return torch.full((last.shape[0], positions.shape[1] - 1), -1), None


chain: Drafter = partial(sampled, table=DRAFTER, stream=noise.DRAFT)
itself: Drafter = partial(sampled, table=TARGET, stream=noise.DRAFT)
same_noise: Drafter = partial(sampled, table=DRAFTER, stream=noise.TARGET)


def step(verify: Verifier, drafter: Drafter, last: Tensor, seeds: Tensor, positions: Tensor) -> tuple[Verified, Tensor]:
    """One draft and its verification; also the emitted tokens [B, γ+1], meaningless past the last of each row."""
    draft, q = drafter(last, seeds, positions) if positions.shape[1] > 1 else nothing(last, seeds, positions)
    p = TARGET[torch.cat([last[:, None], draft.clamp_min(0)], 1)]
    verified = verify(p, q, draft, seeds, positions)
    padded = torch.cat([draft, verified.next_token[:, None]], 1)
    return verified, padded.scatter(1, verified.accepted[:, None], verified.next_token[:, None])


def decode(verify: Verifier, drafter: Drafter, gamma: int, length: int, seeds: Tensor) -> Tensor:
    """The first `length` tokens of every seed's sequence, [B, length]."""
    ahead = torch.arange(gamma + 1)
    tokens = torch.zeros(seeds.shape[0], (length + 1) * (gamma + 1), dtype=torch.int64)
    done = torch.zeros_like(seeds)
    last = torch.full_like(seeds, START)
    while done.min() < length:
        verified, emitted = step(verify, drafter, last, seeds, 100 + done[:, None] + ahead)
        # What is written past a row's last token is overwritten by its next step.
        tokens.scatter_(1, done[:, None] + ahead, emitted)
        done, last = done + verified.accepted + 1, verified.next_token
    return tokens[:, :length]


def fit(outcomes: Tensor, expected: Tensor) -> float:
    """p-value of the G-test that `outcomes` (ids) are distributed as `expected`; 0 where the impossible happened."""
    counts = np.bincount(outcomes.numpy(), minlength=expected.numel()).astype(float)
    probs = expected.double().flatten().numpy()
    if counts[probs == 0].any():
        return 0.0
    counts, probs = counts[probs > 0], probs[probs > 0]
    return float(stats.power_divergence(counts, counts.sum() * probs / probs.sum(), lambda_="log-likelihood").pvalue)


def exact_joint(length: int) -> Tensor:
    # [V] * length, the target's own
    joint = TARGET[START]
    for _ in range(length - 1):
        joint = joint[..., None] * TARGET
    return joint


def exactness(verify: Verifier, drafter: Drafter, gamma: int, length: int = 3, rows: int = ROWS) -> float:
    """p-value of "the first `length` tokens have the target's joint distribution"."""
    tokens = decode(verify, drafter, gamma, length, torch.arange(rows))
    if tokens.min() < 0:
        return 0.0
    return fit((tokens * V ** torch.arange(length - 1, -1, -1)).sum(1), exact_joint(length))


def only_draft(verify: Callable[[Tensor, Tensor, Tensor, Tensor], Verified]) -> Verifier:
    return lambda p, q, draft, seeds, positions: verify(p, draft, seeds, positions)


def first_step(verify: Verifier, drafter: Drafter, gamma: int) -> tuple[Verified, Tensor]:
    seeds = torch.arange(ROWS)
    return step(verify, drafter, torch.full_like(seeds, START), seeds, torch.arange(gamma + 1).expand(ROWS, -1))


def binomial_fit(successes: int, trials: int, probability: float) -> float:
    return float(stats.binomtest(successes, trials, probability).pvalue)
