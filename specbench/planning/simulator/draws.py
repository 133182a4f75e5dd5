"""Random numbers as a pure function of a request and its place in its answer: a step that is simulated ahead of its
time, or again, comes out the same.

SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), as in `decoder.noise`: a request's key is where its counter starts.
"""

from __future__ import annotations

from specbench.planning.simulator.compiled import compiled

_GOLDEN, _FIRST, _SECOND = (word - (1 << 64) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_LOW_33, _LOW_34, _LOW_37, _LOW_53 = ((1 << bits) - 1 for bits in (33, 34, 37, 53))


@compiled
def uniform(key: int, position: int) -> float:
    """From 0 to below 1, a multiple of 2⁻⁵³.

    Only the low 64 bits of a number reach the outcome, so that Python's, which grow, give the same as the machine's.
    """
    z = int(key) + int(position) * _GOLDEN
    z = (z ^ ((z >> 30) & _LOW_34)) * _FIRST
    z = (z ^ ((z >> 27) & _LOW_37)) * _SECOND
    z = z ^ ((z >> 31) & _LOW_33)
    return float((z >> 11) & _LOW_53) * 2.0**-53
