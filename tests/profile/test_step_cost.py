"""What a drafted token costs, from a run of known step times."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_run import measurement, store

from specbench.errors import SpecbenchError
from specbench.profile.step_cost import Cost, run_costs
from specbench.speculation import BASELINE, Speculation


def test_it_is_what_a_step_costs_more_over_what_it_drafts(tmp_path: Path) -> None:
    """Plain steps take 10 ms; steps with 2 and 4 drafted tokens 12 and 14 ms: a tenth of a step for each of them."""
    arms = [measurement(BASELINE), measurement(BASELINE, 2)]
    for gamma in (2, 4):
        arms.append(measurement(Speculation("ngram", gamma), accepted=1, steps=(0.01 + 0.001 * gamma,)))
    arms.append(measurement(Speculation("ngram", 4), 2, accepted=1, steps=(0.018,)))
    run = store(tmp_path / "run", arms, gamma=[2, 4], batch_size=[1, 2])
    assert run_costs(run.path)["ngram"].per_token == pytest.approx(0.1, rel=1e-3)
    cost = run_costs(run.path, 2)["ngram"]
    assert cost.per_token == pytest.approx(0.2, rel=1e-3)
    assert cost.source == "measured in run at batch size 2"
    with pytest.raises(SpecbenchError, match="no cell with batch size 8; it has 1, 2"):
        run_costs(run.path, 8)


def test_a_run_without_speculation_has_none(tmp_path: Path) -> None:
    run = store(tmp_path, [measurement(BASELINE)])
    with pytest.raises(SpecbenchError, match="no cell with a measured step cost"):
        run_costs(run.path)


@pytest.mark.parametrize("text", ["-1", "much", "nan", "inf"])
def test_what_is_no_cost_is_refused(text: str) -> None:
    with pytest.raises(SpecbenchError, match=f"a cost is a number of plain steps, 0 or more; got '{text}'"):
        Cost.given(text, "--cost")
