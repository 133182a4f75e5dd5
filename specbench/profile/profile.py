"""Profiles of several methods over many transcripts, in one pass: all of it, by category and by output position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specbench.analysis.acceptance_along import EDGES
from specbench.analysis.degenerate import was_cut_in_a_loop
from specbench.profile import oracle
from specbench.profile.base import Profiler
from specbench.profile.offsets import Steps, Transcript, walk
from specbench.profile.step_cost import Cost
from specbench.profile.tally import Tally

UNCATEGORIZED = "(none)"


@dataclass(slots=True)
class Group:
    """Some requests with one method.

    by_gamma:   the steps of all of them, by gamma
    least_cost: of the oracle's steps, in plain steps · lengths: summed over requests, each one's own mean acceptance
        length, by gamma · requests: those that had a step
    """

    by_gamma: dict[int, Tally]
    least_cost: float = 0.0
    lengths: dict[int, float] = field(default_factory=dict)
    requests: int = 0

    @classmethod
    def empty(cls, gammas: Sequence[int]) -> Group:
        return cls({gamma: Tally(gamma) for gamma in gammas}, lengths=dict.fromkeys(gammas, 0.0))

    def add(self, steps: Mapping[int, Steps], least_cost: float) -> None:
        self.requests += 1
        self.least_cost += least_cost
        for gamma, taken in steps.items():
            self.by_gamma[gamma].add(taken)
            self.lengths[gamma] += 1 + float(taken.accepted.mean())

    def as_dict(self, cost: float) -> dict[str, Any]:
        best = oracle.best_gamma(self.by_gamma, cost)
        return {
            "requests": self.requests,
            "tokens": next(iter(self.by_gamma.values())).tokens,
            "gammas": [self._rates(gamma, cost) for gamma in self.by_gamma],
            "best_gamma": best,
            "best_speedup": oracle.speedup(self.by_gamma[best], cost) if best else 1.0,
            "oracle_speedup": next(iter(self.by_gamma.values())).tokens / self.least_cost if self.least_cost else None,
        }

    def _rates(self, gamma: int, cost: float) -> dict[str, Any]:
        per_request = self.lengths[gamma] / self.requests if self.requests else None
        return {**rates(self.by_gamma[gamma], cost), "mean_acceptance_length_per_request": per_request}


@dataclass(slots=True)
class MethodProfile:
    """cost: of a drafted token · by_position: by bucket of output positions (EDGES)"""

    method: str
    cost: Cost
    whole: Group
    by_category: dict[str, Group] = field(default_factory=dict)
    by_position: dict[int, dict[int, Tally]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        cost = self.cost.per_token
        return {
            "method": self.method,
            "cost_per_drafted_token": cost,
            "cost_source": self.cost.source,
            **self.whole.as_dict(cost),
            "by_category": {name: group.as_dict(cost) for name, group in sorted(self.by_category.items())},
            "by_output_position": [
                {
                    "from": EDGES[bucket],
                    "below": EDGES[bucket + 1] if bucket + 1 < len(EDGES) else None,
                    "gammas": [rates(tally, cost) for tally in tallies.values() if tally.tokens],
                }
                for bucket, tallies in sorted(self.by_position.items())
            ],
        }


@dataclass(slots=True)
class Profile:
    """gammas: profiled · loops: transcripts that end in a loop, which accepts anything; in no figure unless asked for

    prompt_tokens, response_tokens: of all transcripts, loops included
    """

    gammas: tuple[int, ...]
    methods: list[MethodProfile]
    requests: int = 0
    loops: int = 0
    prompt_tokens: int = 0
    response_tokens: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "loops": self.loops,
            "prompt_tokens": self.prompt_tokens,
            "response_tokens": self.response_tokens,
            "gammas": list(self.gammas),
            "methods": [method.as_dict() for method in self.methods],
        }


def profile(
    transcripts: Iterable[Transcript],
    profilers: Sequence[Profiler],
    gammas: Sequence[int],
    costs: Mapping[str, Cost],
    keep_loops: bool = False,
) -> Profile:
    """Profile every method over every transcript, which are taken in order and not kept.

    costs: of a drafted token, by method · keep_loops: count those that end in a loop like the others
    """
    found = Profile(tuple(gammas), [MethodProfile(p.method, costs[p.method], Group.empty(gammas)) for p in profilers])
    for transcript in transcripts:
        found.requests += 1
        found.prompt_tokens += len(transcript.prompt)
        found.response_tokens += len(transcript.response)
        loops = was_cut_in_a_loop(transcript.response)
        found.loops += loops
        for profiler, method in zip(profilers, found.methods, strict=True):
            table = profiler.table(transcript, max(gammas))
            if len(transcript.response) > 1 and (keep_loops or not loops):
                steps = {gamma: walk(table, transcript, gamma) for gamma in gammas}
                _add(method, transcript.category, steps, oracle.least_cost(table, transcript, method.cost.per_token))
    return found


def _add(method: MethodProfile, category: str | None, steps: Mapping[int, Steps], least_cost: float) -> None:
    gammas = list(steps)
    method.whole.add(steps, least_cost)
    name = UNCATEGORIZED if category is None else category
    if name not in method.by_category:
        method.by_category[name] = Group.empty(gammas)
    method.by_category[name].add(steps, least_cost)
    for gamma, taken in steps.items():
        for bucket, part in _by_bucket(taken):
            if bucket not in method.by_position:
                method.by_position[bucket] = {g: Tally(g) for g in gammas}
            method.by_position[bucket][gamma].add(part)


def _by_bucket(steps: Steps) -> Iterable[tuple[int, Steps]]:
    """The steps that begin in each bucket of output positions, which are those of a run's report."""
    buckets = np.searchsorted(EDGES, steps.at, side="right") - 1
    parts = (steps.at, steps.emitted, steps.drafted, steps.accepted)
    for bucket in np.unique(buckets):
        yield int(bucket), Steps(*(part[buckets == bucket] for part in parts))


def rates(tally: Tally, cost_per_token: float) -> dict[str, Any]:
    """The figures of one gamma."""
    counts = tally.counts()
    return {
        "gamma": tally.gamma,
        "steps": counts.steps,
        "drafts": counts.drafts,
        "drafted": counts.drafted,
        "accepted": counts.accepted,
        "mean_acceptance_length": counts.mean_length(),
        "mean_acceptance_length_per_draft": counts.mean_length_per_draft(),
        "draft_acceptance_rate": counts.draft_rate(),
        "alpha": tally.alpha(),
        "position_acceptance": counts.position_acceptance(),
        "conditional_acceptance": tally.conditional(),
        "predicted_speedup": oracle.speedup(tally, cost_per_token),
    }
