"""A committed run of the reference decoder, as cells to fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import Gpu
from specbench.planning.asked import asked_points
from specbench.planning.from_run import Measured, measured
from specbench.store.run import RunStore

EXAMPLE = Path(__file__).parents[2] / "reports" / "example"


@pytest.fixture(scope="module")
def run() -> Measured:
    return measured(RunStore.open(EXAMPLE))


def test_every_closed_loop_cell_is_there_with_its_lengths(run: Measured) -> None:
    places = {(o.point.workload, o.point.method, o.point.gamma, o.point.batch_size) for o in run.observations}
    arms = (("none", 0), ("ngram", 4))
    assert places == {(w, m, g, b) for w in ("structured", "chat") for m, g in arms for b in (1, 4)}
    assert all(32 <= o.point.output_tokens < 40 for o in run.observations)  # --max-tokens, or a prompt's own
    assert all(o.point.prompt_tokens > 10 for o in run.observations)
    assert run.model.arms == (("structured", "ngram"), ("chat", "ngram"))


def test_speculative_cells_carry_acceptance_and_the_engines_clock(run: Measured) -> None:
    for o in run.observations:
        assert o.prefill_share is not None
        if o.point.gamma:
            assert o.reached is not None
            assert o.length == pytest.approx(1 + sum(o.reached) / o.steps)
            assert o.verify_cost is not None
            # A lookup that finds nothing leaves the step without a draft.
            assert 0 < o.point.drafted_share < 1
        else:
            assert o.reached is o.length is o.verify_cost is None


def test_noise_is_that_of_three_launches(run: Measured) -> None:
    assert all(0 < o.noise < 0.1 for o in run.observations)


def test_a_machine_that_is_no_known_gpu_is_said_to_be_unknown_and_can_be_named(run: Measured) -> None:
    assert run.model.machine.spread > 1
    assert any("is assumed of the machine" in note for note in run.notes)
    here = Gpu(name="here", memory_gib=24, bandwidth_tb_per_s=0.03, tflops={"fp32": 0.2}, source="measured")
    named = measured(RunStore.open(EXAMPLE), here).model.machine
    # Without the target's config.json a model stands in, and then the machine is not known either.
    assert named.spread == (0.0 if named.bandwidth == 3e10 else run.model.machine.spread)


def test_asked_points_take_what_is_not_said_from_the_run(run: Measured) -> None:
    both = asked_points({"batch_size": "16", "gamma": "3"}, run.observations, "--predict")
    assert {(p.workload, p.method, p.gamma, p.batch_size) for p in both} == {
        ("structured", "ngram", 3, 16),
        ("chat", "ngram", 3, 16),
    }
    (plain,) = asked_points({"batch_size": "2", "gamma": "0", "workload": "chat"}, run.observations, "--predict")
    assert (plain.method, plain.gamma, plain.drafted_share) == ("none", 0, 1.0)
    (longer,) = asked_points(
        {"batch_size": "2", "gamma": "4", "workload": "chat", "output_tokens": "400"}, run.observations, "--predict"
    )
    assert longer.output_tokens == 400


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"batch_size": "2"}, "give both"),
        ({"batch_size": "2", "gamma": "4", "colour": "red"}, "'colour' is not known"),
        ({"batch_size": "none", "gamma": "4"}, "batch_size must be a whole number, 1 or more"),
        ({"batch_size": "2", "gamma": "-1"}, "gamma must be a whole number, 0 or more"),
        ({"batch_size": "2", "gamma": "4", "method": "eagle3"}, "no such arm; it has structured with ngram"),
    ],
)
def test_what_cannot_be_asked_is_refused(wanted: dict[str, str], said: str, run: Measured) -> None:
    with pytest.raises(SpecbenchError, match=said):
        asked_points(wanted, run.observations, "--predict")
