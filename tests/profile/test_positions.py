"""Output positions are cut where a run's report cuts them, so that the two can be laid side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from known_run import request

from specbench.analysis.acceptance_along import by_output_position
from specbench.profile.offsets import Steps
from specbench.profile.profile import Group, MethodProfile, _add
from specbench.profile.step_cost import Cost


@given(st.lists(st.integers(0, 3), min_size=1, max_size=400))
def test_the_same_steps_have_the_same_lengths_by_position_in_profile_and_report(accepted: list[int]) -> None:
    kept = np.array(accepted)
    at = 1 + np.concatenate([[0], np.cumsum(kept + 1)[:-1]])
    steps = Steps(at, kept + 1, np.full(len(kept), 3), kept)
    method = MethodProfile("ngram", Cost(0.0, "free"), Group.empty([3]))
    _add(method, None, {3: steps}, 0.0)
    told = {
        (bucket["from"], bucket["gammas"][0]["mean_acceptance_length"])
        for bucket in method.as_dict()["by_output_position"]
    }
    trace = request(gamma=3, length=1)
    assert trace.acceptance is not None
    acceptance = replace(
        trace.acceptance, steps=len(accepted), accepted=sum(accepted), per_step_accepted=tuple(accepted)
    )
    reported = by_output_position([replace(trace, acceptance=acceptance)])
    assert {(int(name.split("-")[0]), length) for name, length in reported.items()} == told
