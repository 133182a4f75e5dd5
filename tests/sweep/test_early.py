"""A sweep that asks after each launch what is next: it measures that, keeps what is said, refuses what cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.quantities import budget_seconds
from specbench.store.measurement import Measurement
from specbench.store.run import EARLY_STOP, RunStore
from specbench.sweep import early
from specbench.sweep.config import CONTINUABLE, SweepConfig
from specbench.sweep.config_file import load_config
from specbench.sweep.early import Step, run_until_confident
from specbench.sweep.plan import make_plan
from specbench.sweep.progress import Silent
from specbench.sweep.runner import Sweep

CONFIG = SweepConfig(workload=(Path("w.jsonl"),), gamma=(2, 4), batch_size=(1, 8), replicates=2, until_confident=True)
PLAN = make_plan(CONFIG)
CELLS = {m.cell.id: m.cell for m in PLAN.measurements}


async def test_it_measures_what_is_asked_for_until_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that is asked for again is measured in its next replicate."""
    taken: list[str] = []

    async def run_sweep(sweep: Sweep, progress: Any) -> None:
        for m in sweep.plan.measurements:
            taken.append(m.id)
            at = f"2030-01-01T00:00:{len(taken):02}"
            sweep.store.write(Measurement(m.id, "l", m.cell, m.replicate, m.repeat, "ok", at))

    asked = iter([("w-none-b1", "w-none-b8"), ("w-ngram-g4-b8",), ("w-none-b8",), ()])

    def choose(measurements: Sequence[Measurement]) -> Step:
        assert [m.id for m in measurements] == taken
        cells = tuple(CELLS[name] for name in next(asked))
        return Step(cells, "why", {"why": "under way" if cells else "settled"} if taken else None)

    monkeypatch.setattr(early, "run_sweep", run_sweep)
    store = RunStore.create(tmp_path, {"config": {}})
    sweep = Sweep(CONFIG, PLAN, None, Path("t"), {}, {}, store, None)  # type: ignore[arg-type]
    await run_until_confident(sweep, Silent(), choose)
    assert taken == ["w-none-b1-r0k0", "w-none-b8-r0k0", "w-ngram-g4-b8-r0k0", "w-none-b8-r1k0"]
    assert store.read_json(EARLY_STOP) == {"why": "settled"}


def test_a_visit_is_one_launch_of_the_cells_that_are_left() -> None:
    both = [CELLS["w-ngram-g2-b1"], CELLS["w-ngram-g2-b8"]]
    (first,) = PLAN.visit(both, ()).launches
    assert (first.id, [m.cell for m in first.measurements]) == ("ngram-g2-r0", both)
    (again,) = PLAN.visit(both[:1], {"w-ngram-g2-b1-r0k0"}).launches
    assert (again.id, len(again.measurements)) == ("ngram-g2-r1", 1)
    assert PLAN.visit(both, {m.id for m in PLAN.measurements}).launches == ()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"budget": "20"}, "--budget: expected a share of the whole grid's time such as 20%, or a time such as 30m"),
        ({"budget": "0%"}, "--budget: expected a share"),
        ({"budget": "120%"}, "--budget: expected a share"),
        ({"confidence": "20%"}, "--confidence"),
        ({"until_ci": "3%"}, "--until-confident cannot be: --until-ci adds replicates"),
        ({"request_rate": [2.0]}, "cannot be: an open loop has no throughput to predict"),
        ({"gamma": ["adaptive:threshold"]}, "cannot be: a schedule or rule of gamma is not modelled"),
        ({"method": ["none"]}, "cannot be: there is no method to choose from"),
        ({"baseline": "both"}, "cannot be: --baseline both"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        load_config(None, {"workload": ["w.jsonl"], "until_confident": True, **options})


def test_a_run_can_be_gone_on_with_to_the_whole_grid() -> None:
    assert {"until_confident", "confidence", "budget"} <= set(CONTINUABLE)
    assert CONFIG.stops_early
    assert CONFIG.model_copy(update={"until_confident": False, "budget": "20%"}).stops_early
    assert not CONFIG.model_copy(update={"budget": "100%"}).stops_early


@given(share=st.integers(1, 100), whole=st.floats(1, 1e6))
def test_a_budget_is_a_share_of_the_whole_or_a_time(share: int, whole: float) -> None:
    assert budget_seconds(f"{share}%", whole) == pytest.approx(share / 100 * whole)
    assert budget_seconds(f"{share}m", whole) == 60 * share
