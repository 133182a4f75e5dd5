"""The decoder's random numbers inside kernels: SplitMix64 as in `noise`, whose docstring has the source.

The same seed, position and stream give the same bits as there; only the logarithm's last place is the device's own.
"""

from __future__ import annotations

import triton
import triton.language as tl

GOLDEN = 0x9E3779B97F4A7C15
_GOLDEN = tl.constexpr(GOLDEN)
_SCALE = tl.constexpr((1 - 2.0**-24) * 2.0**-31)


def salt(stream: int) -> int:
    """What sets a stream of `noise` apart, as 64 bits: a compile-time constant of kernels that draw from it."""
    return (stream + 1) * GOLDEN % (1 << 64)


@triton.jit
def _mix(z):
    # uint64 -> uint64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def key(seed, position, SALT: tl.constexpr):
    """Where the counter of a request (seed int64) starts at a position (int64)."""
    return _mix(_mix(seed.to(tl.uint64) + SALT) + position.to(tl.uint64) * _GOLDEN)


@triton.jit
def uniform(start):
    """`noise.uniform` of a `key`."""
    return (_mix(start + _GOLDEN) >> 40).to(tl.int32).to(tl.float32) * 5.9604644775390625e-08  # 2^-24


@triton.jit
def exponential(start, ids):
    """`noise.exponential` of a `key`, at vocabulary ids (int32)."""
    word = _mix(start + (ids // 2 + 1).to(tl.uint64) * _GOLDEN)
    bits = (word >> ((ids % 2) * 32).to(tl.uint64)) & 0x7FFFFFFF
    u = (bits.to(tl.int32).to(tl.float32) + 0.5) * _SCALE
    # log(1 - u) where 1 - u has lost u's last places: scaled by what was kept of them (Goldberg, 1991, theorem 4).
    kept = 1.0 - u
    return tl.where(kept == 1.0, u, -tl.log(kept) * (u / (1.0 - kept)))
