"""Several tests at once: p-values that hold for the family."""

from __future__ import annotations

from collections.abc import Mapping


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjustment (1979): rejecting where it is ≤ α errs in any of them with probability ≤ α.

    Needs no independence, so cells that share a baseline may stand in one family.
    """
    adjusted, largest = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}
