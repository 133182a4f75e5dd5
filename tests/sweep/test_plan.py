"""Plans: what is launched, in which order, and what shares a launch."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from specbench.backends.base import EngineOptions
from specbench.sweep.config import SweepConfig
from specbench.sweep.launch import make_launch
from specbench.sweep.plan import make_plan


def test_arms_are_interleaved_abba_over_launches() -> None:
    plan = make_plan(SweepConfig(workload=("w.jsonl",), method=("ngram",), gamma=(2, 4), replicates=2))
    assert [launch.id for launch in plan.launches] == [
        *("none-r0", "ngram-g2-r0", "ngram-g4-r0"),
        *("ngram-g4-r1", "ngram-g2-r1", "none-r1"),
    ]


sizes = st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True).map(tuple)


@given(gammas=sizes, batch_sizes=sizes, replicates=st.integers(1, 4), repeats=st.integers(1, 3))
def test_batch_sizes_and_repeats_never_cost_a_launch(
    gammas: tuple[int, ...], batch_sizes: tuple[int, ...], replicates: int, repeats: int
) -> None:
    config = SweepConfig(
        workload=("a.jsonl", "b.jsonl"), gamma=gammas, batch_size=batch_sizes, replicates=replicates, repeats=repeats
    )
    plan = make_plan(config)
    assert len(plan.launches) == (1 + len(gammas)) * replicates
    assert len(plan.measurements) == len(plan.launches) * 2 * len(batch_sizes) * repeats
    assert len({m.id for m in plan.measurements}) == len(plan.measurements)


def test_the_baseline_measured_again_is_an_arm_among_the_others() -> None:
    plan = make_plan(SweepConfig(workload=(Path("w.jsonl"),), gamma=(2,), replicates=2, baseline_vs_baseline=True))
    assert [launch.id for launch in plan.launches] == [
        *("none-r0", "none-again-r0", "ngram-g2-r0"),
        *("ngram-g2-r1", "none-again-r1", "none-r1"),
    ]
    assert len({m.id for m in plan.measurements}) == len(plan.measurements)


def test_both_baselines_are_two_arms_with_settings_of_their_own() -> None:
    config = SweepConfig(workload=("w.jsonl",), backend="vllm", gamma=(2,), replicates=1, baseline="both")
    plan = make_plan(config)
    assert [launch.id for launch in plan.launches] == ["none-r0", "none-as-deployed-r0", "ngram-g2-r0"]
    launches = [make_launch(config, launch.speculation, Path("t"), {}, EngineOptions()) for launch in plan.launches]
    assert [launch.matched for launch in launches] == [True, False, True]
    assert len({m.id for m in plan.measurements}) == len(plan.measurements)
