"""All tests on one arm's draws, and the control that the baseline's own draws pass them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specbench.equivalence.sampling import joint, pit
from specbench.equivalence.sampling.frequencies import one_sample, two_sample
from specbench.equivalence.sampling.likelihood import LikelihoodCheck
from specbench.equivalence.sampling.likelihood import check as check_likelihood
from specbench.equivalence.sampling.observations import Draw, Known
from specbench.equivalence.sampling.results import TestResult
from specbench.equivalence.sampling.strata import paired_counts, strata
from specbench.equivalence.sampling.support import outside, support_test

FREQUENCIES = "token frequencies"
BONUS = "bonus token"
CONTROL = "control: the baseline's own draws"
TESTS_PER_ARM = 6
LEVEL = 1e-3
"""Of the whole family of tests: one false alarm in a thousand verdicts."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an arm's tests are made from.

    draws: the speculative arm's · baseline: drawn without speculation at the same contexts, with other seeds
    known: the target's probabilities, empty where the engine gives none · wider: the same with a slightly larger
        nucleus, at places where a token fell outside of it
    """

    draws: Sequence[Draw]
    baseline: Sequence[Draw]
    known: Known
    wider: Known


@dataclass(frozen=True, slots=True)
class ArmResult:
    """tests: in the order in which they are shown · likelihood: None where probabilities are not known"""

    tests: tuple[TestResult, ...]
    likelihood: LikelihoodCheck | None


def control(baseline: Sequence[Draw], known: Known, level: float) -> TestResult:
    """Whether the log-probabilities are those that the engine samples from: its plain draws must follow them."""
    return one_sample(CONTROL, strata(baseline, known, Draw.stepped), level)


def run_battery(evidence: Evidence, level: float, seed: int = 0) -> ArmResult:
    """Every test of one arm. level: of each single test, for what they say of their power; seed: of the tests' own
    randomness, so that a verdict can be repeated

    Only tokens that came from steps are looked at: the first one of an output is the prefill's.
    """
    draws, known = evidence.draws, evidence.known
    rng = np.random.default_rng(seed)
    grams = joint.grams(draws), joint.grams(evidence.baseline)
    together = joint.permutation_test(*grams, rng, joint.permutations_for(level))
    if not known:
        stepped = paired_counts(draws, evidence.baseline, Draw.stepped)
        return ArmResult((two_sample(FREQUENCIES, stepped, level), together), None)
    looked_at, found = outside(draws, known, Draw.stepped)
    return ArmResult(
        (
            one_sample(FREQUENCIES, strata(draws, known, Draw.stepped), level),
            one_sample(BONUS, strata(draws, known, Draw.bonuses), level),
            *pit.tests(pit.values(draws, known, Draw.stepped, rng)),
            support_test(looked_at, found, evidence.wider),
            together,
        ),
        check_likelihood(draws, known, Draw.stepped),
    )
