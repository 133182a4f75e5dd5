"""Random numbers as a pure function of (seed, position, stream): no state, so no request depends on its batch mates.

The generator is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), a
64-bit counter through a bijective mixer: seed, stream and position are mixed into the place where a counter starts, and
vocabulary ids count on from there. `uniform` gives the same bits on every device. `exponential` mixes the same bits
everywhere, but its logarithm is the device's own and may differ in the last place between CPU and CUDA.
"""

from __future__ import annotations

import torch
from torch import Tensor

DRAFT, ACCEPT, RESIDUAL, TARGET, SYNTHETIC, BLOCK = 0, 1, 2, 3, 4, 5
"""The streams: a drafter's samples; accept tests; the token after a rejection, or the bonus; coupled verification;
made-up acceptance; a drafter's samples under block verification, with new noise at every step (`fork`).

A draw made because of another's outcome must not reuse its noise, hence one stream for each. For the same reason a rule
that picks gamma may look at committed tokens and at verdicts, never at drafted tokens that no verdict reached: the next
step drafts again at those positions, with the same noise. Block verification does look at such tokens, hence `BLOCK`.
"""

_CHUNK = {"cpu": 1 << 17}
"""64-bit words mixed at a time, where not 2^24. A chunk that stays in a CPU's caches takes half the time."""


def _int64(bits: int) -> int:
    """The int64 with these 64 bits; torch has no arithmetic on uint64."""
    return bits - (1 << 64) if bits >> 63 else bits


_GOLDEN = _int64(0x9E3779B97F4A7C15)
_ROUNDS = ((30, _int64(0xBF58476D1CE4E5B9)), (27, _int64(0x94D049BB133111EB)))


def _mix(z: Tensor) -> Tensor:
    """SplitMix64's output function (variant 13 of Stafford's mixers), in place on int64."""
    for shift, factor in _ROUNDS:
        _xor_shift(z, shift).mul_(factor)
    return _xor_shift(z, 31)


def _xor_shift(z: Tensor, shift: int) -> Tensor:
    # `>>` repeats the sign of an int64; only with those bits masked away is the step a bijection.
    return z.bitwise_xor_((z >> shift).bitwise_and_((1 << (64 - shift)) - 1))


def _keys(seeds: Tensor, positions: Tensor, stream: int) -> Tensor:
    # seeds [B] · positions [B, w] -> [B, w] int64
    start = _mix(seeds + _int64((stream + 1) * _GOLDEN % (1 << 64)))
    return _mix(start[:, None] + positions * _GOLDEN)


def fork(seeds: Tensor, positions: Tensor, stream: int) -> Tensor:
    """Other seeds, one for each seed and position. seeds, positions [B] int64 -> [B] int64"""
    return _keys(seeds, positions[:, None], stream)[:, 0]


def uniform(seeds: Tensor, positions: Tensor, stream: int) -> Tensor:
    """Uniform numbers in [0, 1), one per position: float32, multiples of 2^-24.

    seeds [B] int64, any value · positions [B, w] int64 -> [B, w]
    Not independent of `exponential` at the same seed, position and stream: use a stream for one of the two.
    """
    bits = _mix(_keys(seeds, positions, stream) + _GOLDEN)
    return ((bits >> 40) & 0xFFFFFF).to(torch.float32).mul_(2.0**-24)


def exponential(seeds: Tensor, positions: Tensor, stream: int, vocab: int) -> Tensor:
    """Exp(1) numbers, one per position and vocabulary id: float32, strictly between 0 and 16.7.

    seeds [B] int64, any value · positions [B, w] int64 -> [B, w, vocab]
    A token's number does not depend on `vocab`, so models whose vocabularies are padded differently share their noise.

    E = -log(1 - u) with 31 bits of u, which are finest near 0: argmax(p / E) is decided by the smallest E, where a grid
    of 2^-24 would make ties among the rare tokens of a large vocabulary.
    """
    keys = _keys(seeds, positions, stream).reshape(-1, 1)
    pairs = (vocab + 1) // 2  # one 64-bit word serves two neighbouring ids
    counters = torch.arange(1, pairs + 1, dtype=torch.int64, device=keys.device).mul_(_GOLDEN)
    noise = torch.empty(keys.shape[0], vocab, dtype=torch.float32, device=keys.device)
    rows = max(1, _CHUNK.get(keys.device.type, 1 << 24) // max(1, pairs))
    for row in range(0, keys.shape[0], rows):
        words = _mix(keys[row : row + rows] + counters).view(torch.int32).bitwise_and_(0x7FFFFFFF)
        # The scale is a hair below 2^-31: u stays below 1 when it is rounded to float32, and the logarithm finite.
        u = noise[row : row + rows].copy_(words[:, :vocab]).add_(0.5).mul_((1 - 2.0**-24) * 2.0**-31)
        u.neg_().log1p_().neg_()
    return noise.view(*positions.shape, vocab)
