"""What the steps would cost, the best fixed gamma, and the bound for every rule that adapts gamma.

All in units of a plain decoding step: a step costs 1 + c * (tokens drafted), so that the speedup of a run is the tokens
that its steps emitted over their cost (E / (γc + 1) of Leviathan et al., 2023, theorem 3.8, without its assumption of
one acceptance rate everywhere). Prefills are left out: speculation does not change them.
"""

from __future__ import annotations

from collections.abc import Mapping

from specbench.profile.offsets import DraftTable, Transcript
from specbench.profile.tally import Tally


def speedup(tally: Tally, cost_per_token: float) -> float | None:
    """Predicted for the steps of a tally; None where there is none."""
    counts = tally.counts()
    return tally.tokens / (counts.steps + cost_per_token * (counts.drafted or 0)) if counts.steps else None


def best_gamma(tallies: Mapping[int, Tally], cost_per_token: float) -> int:
    """The fixed gamma with the highest predicted speedup, 0 where none is above 1; of equals the smallest."""
    found, best = 0, 1.0
    for gamma in sorted(tallies):
        predicted = speedup(tallies[gamma], cost_per_token)
        if predicted is not None and predicted > best:
            found, best = gamma, predicted
    return found


def least_cost(table: DraftTable, transcript: Transcript, cost_per_token: float) -> float:
    """Cost of the cheapest way through one response, with any number of tokens, 0 included, allowed in every step.

    Found backwards, by dynamic programming: no rule that sets the allowed number per step, adaptive or fixed, with
    whatever knowledge, comes through at less with this drafter and greatest gamma.
    """
    length, limit = len(transcript.response), transcript.max_tokens
    drafts = table.drafted.max(0).tolist()
    costs, accepted = (1 + cost_per_token * table.drafted).T.tolist(), table.accepted.T.tolist()
    # rest[t]: the least cost from t emitted tokens on; nothing is left to pay at the end.
    rest = [0.0] * (length + 1)
    for t in range(length - 1, 0, -1):
        least = 1 + rest[t + 1]
        if drafts[t]:
            allowed = table.gamma if limit is None else min(table.gamma, limit - t - 1)
            for cost, kept in zip(costs[t][:allowed], accepted[t][:allowed], strict=True):
                whole = cost + rest[min(t + kept + 1, length)]
                if whole < least:
                    least = whole
        rest[t] = least
    return rest[1] if length > 1 else 0.0
