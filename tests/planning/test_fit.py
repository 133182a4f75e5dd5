"""The fit finds the parameters that made the cells, as far as cells can tell them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from known_cells import MODEL, THETA, TRUTH, grid, measure, point

from specbench.errors import SpecbenchError
from specbench.planning.fit import fit, unfitted


def test_known_parameters_are_recovered_within_their_own_uncertainty() -> None:
    found = fit(MODEL, measure(grid(), noise=0.005))
    spread = np.sqrt(np.diag(found.covariance))
    assert (np.abs(found.theta - THETA) < 3 * spread).all()
    # Overhead and memory rate share the plain step's time, and only their sum is told well.
    learnt = spread / MODEL.prior().spread
    told = [name for name, left in zip(MODEL.names, learnt, strict=True) if left < 0.5]
    assert {"compute", "exponent", "prefill", "eagle3.ratio", "chat.eagle3.first", "code.ngram.later"} <= set(told)
    assert dict(zip(MODEL.names, found.theta, strict=True))["chat.eagle3.first"] == pytest.approx(
        TRUTH["chat.eagle3.first"], abs=0.05
    )


@pytest.mark.parametrize("told", [True, False], ids=["with acceptance", "throughput alone"])
def test_cells_between_measured_ones_are_predicted(told: bool) -> None:
    found = fit(MODEL, measure(grid(), noise=0.005, told=told))
    between = [point("eagle3", 4, 8), point("ngram", 4, 32), point("none", 0, 24), point("eagle3", 6, 2)]
    expected = MODEL.steps(THETA, between).tokens_per_second
    assert np.exp(found.log_rates(between)) == pytest.approx(expected, rel=0.02)


def test_one_wild_cell_does_not_pull_the_others_away() -> None:
    seen = measure(grid(), noise=0.005)
    wild = [replace(o, tokens_per_second=o.tokens_per_second * (0.4 if i == 7 else 1)) for i, o in enumerate(seen)]
    others = [o.point for i, o in enumerate(seen) if i != 7]
    sane, pulled = (fit(MODEL, cells).log_rates(others) for cells in (seen, wild))
    assert np.abs(pulled - sane).max() < 0.05


def test_more_cells_make_predictions_surer() -> None:
    seen, asked = measure(grid()), [point("eagle3", 4, 32)]
    few, many = fit(MODEL, seen[::4]), fit(MODEL, seen)
    variances = [(f.sensitivity(asked) @ f.covariance @ f.sensitivity(asked).T).item() for f in (few, many)]
    assert variances[1] < variances[0]
    prior = unfitted(MODEL, 0.02)
    assert (prior.sensitivity(asked) @ prior.covariance @ prior.sensitivity(asked).T).item() > variances[0]


def test_an_engine_that_tells_the_length_alone_is_believed() -> None:
    seen = [replace(o, reached=None, length=2.9 if o.point.gamma == 5 else None) for o in measure(grid(["eagle3"]))]
    found = fit(MODEL, seen)
    assert found.model.steps(found.theta, [point("eagle3", 5, 4)]).length == pytest.approx(2.9, rel=0.05)


def test_nothing_measured_is_an_error_and_leaves_the_prior_as_it_is() -> None:
    with pytest.raises(SpecbenchError, match="no cell"):
        fit(MODEL, [])
    assert unfitted(MODEL, 0.02).theta == pytest.approx(MODEL.prior().mean)
