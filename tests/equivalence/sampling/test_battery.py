"""The battery on a target that is a table: with its probabilities, without them, and with a sampler that is off."""

from __future__ import annotations

import numpy as np

from specbench.equivalence.sampling.battery import CONTROL, FREQUENCIES, Evidence, control, run_battery
from specbench.equivalence.sampling.observations import Distribution, Draw, Known
from specbench.equivalence.sampling.places import crowded, whole_outputs
from specbench.equivalence.sampling.verdict import judge

TARGET = np.random.default_rng(0).dirichlet(np.full(6, 1.5), size=6)  # [token before, token]
LEVEL = 1e-4


def draws(table: np.ndarray, count: int, seed: int) -> list[Draw]:
    """Outputs of four tokens of a chain, at two contexts, the second token of each step a bonus."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        tokens = [int(rng.integers(6))]
        while len(tokens) < 4:
            tokens.append(int(rng.choice(6, p=table[tokens[-1]])))
        found.append(Draw(number % 2, tuple(tokens), ((1, 1), (0, 0))))
    return found


def known(samples: list[list[Draw]]) -> Known:
    places = [*crowded(samples), *(place for sample in samples for place in whole_outputs(sample, 10**6))]
    return {place: Distribution(tuple(range(6)), tuple(map(float, TARGET[place[1][-1]])), True) for place in places}


def shifted(by: float) -> np.ndarray:
    table = TARGET.copy()
    rows, best, worst = np.arange(6), TARGET.argmax(1), TARGET.argsort(1)[:, -2]
    table[rows, best] -= by
    table[rows, worst] += by
    return table


def test_the_targets_own_draws_pass_every_test() -> None:
    a, b = draws(TARGET, 3_000, 1), draws(TARGET, 400, 2)
    arm = run_battery(Evidence(a, b, known([a, b]), {}), LEVEL)
    assert len(arm.tests) == 6
    assert all(test.p is not None and test.p > 1e-3 for test in arm.tests)
    assert judge({"arm": arm}, 1e-3, find_tv=0.1).outcome == "EQUIVALENT"
    assert arm.likelihood is not None
    assert arm.likelihood.is_equivalent


def test_a_biased_sampler_fails_and_the_effect_is_its_total_variation() -> None:
    a, b = draws(shifted(0.15), 3_000, 3), draws(TARGET, 400, 4)
    arm = run_battery(Evidence(a, b, known([a, b]), {}), LEVEL)
    frequencies = arm.tests[0]
    assert judge({"arm": arm}, 1e-3, find_tv=0.1).outcome == "NOT EQUIVALENT"
    assert frequencies.effect is not None
    assert frequencies.effect.low < 0.15 < frequencies.effect.high
    assert abs(frequencies.effect.tv - 0.15) < 0.03


def test_without_probabilities_two_samples_are_compared() -> None:
    """For engines that give no log-probabilities."""
    same = run_battery(Evidence(draws(TARGET, 3_000, 5), draws(TARGET, 3_000, 6), {}, {}), LEVEL)
    other = run_battery(Evidence(draws(shifted(0.2), 3_000, 7), draws(TARGET, 3_000, 8), {}, {}), LEVEL)
    assert [test.name for test in same.tests] == [FREQUENCIES, "joint 3-grams, MMD"]
    assert judge({"arm": same}, 1e-3, find_tv=0.2).outcome == "EQUIVALENT"
    assert judge({"arm": other}, 1e-3, find_tv=0.2).outcome == "NOT EQUIVALENT"
    known_power = run_battery(Evidence(draws(TARGET, 3_000, 5), [], known([draws(TARGET, 3_000, 5)]), {}), LEVEL)
    assert (same.tests[0].detectable or 0) > (known_power.tests[0].detectable or 1)


def test_a_battery_run_again_says_the_same() -> None:
    a, b = draws(TARGET, 600, 9), draws(TARGET, 300, 10)
    evidence = Evidence(a, b, known([a, b]), {})
    assert run_battery(evidence, LEVEL, seed=5) == run_battery(evidence, LEVEL, seed=5)


def test_the_control_finds_probabilities_that_are_not_what_is_sampled_from() -> None:
    b = draws(TARGET, 2_000, 11)
    flat = {place: Distribution(d.tokens, (1 / 6,) * 6) for place, d in known([b]).items()}
    assert control(b, known([b]), LEVEL).name == CONTROL
    assert (control(b, known([b]), LEVEL).p or 0) > 1e-3
    assert (control(b, flat, LEVEL).p or 1) < 1e-9


def test_places_are_chosen_by_the_crowd_that_reaches_them() -> None:
    a = [Draw(0, (1, token, 5)) for token in range(40)]
    assert crowded([a]) == [(0, (1,))]
    assert crowded([a[:20]]) == []
    assert whole_outputs(a, 3) == [(0, (1,)), (0, (1, 0)), (0, (1, 1))]  # two outputs have three places
