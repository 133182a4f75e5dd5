"""Whole runs summed up: what the run says of its arms, its outputs and its failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from known_run import NGRAM, codes, failed, measurement, output_of, request, row, store

from specbench.analysis.summary import summarize
from specbench.speculation import AGAIN, AS_DEPLOYED, BASELINE, Speculation
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore


def test_only_batch_sizes_that_gain_are_said_to_gain(tmp_path: Path) -> None:
    noisy = [measurement(replicate=r) for r in (0, 1)]
    noisy += [measurement(NGRAM, accepted=3, replicate=r, steps=(step,)) for r, step in enumerate((0.012, 0.045))]
    clear = [measurement(batch_size=2, requests=16, replicate=r) for r in (0, 1)]
    clear += [measurement(NGRAM, 2, requests=16, accepted=3, replicate=r) for r in (0, 1)]
    text = summarize(store(tmp_path, [*noisy, *clear])).text
    assert text.startswith(
        "Enable speculative decoding with ngram and gamma 4: it gains at batch size 2; not resolved at 1."
    )
    assert "At batch size 2 a million output tokens cost" in text


def test_a_gain_at_large_batches_alone_is_said_where_it_cannot_be_enabled(tmp_path: Path) -> None:
    run = [
        measurement(),
        measurement(NGRAM, accepted=0, steps=(0.02,)),
        measurement(batch_size=2, requests=16),
        measurement(NGRAM, 2, requests=16, accepted=3),
    ]
    summary = summarize(store(tmp_path, run))
    assert summary.decision.recommendation == "DISABLE"
    assert "none gains from the smallest batch size on" in summary.text


def test_settings_that_the_engine_changed_stand_beside_both_arms(tmp_path: Path) -> None:
    run = store(tmp_path, [measurement(), measurement(NGRAM, accepted=3)])
    run.write_json("launches/none-r0.json", {"differences": ["max_batch_size is 48, asked was 64"]})
    summary = summarize(run)
    assert all("settings_differ" in codes(cell) for cell in summary.cells)


def test_one_changed_token_is_divergent_until_its_margin_explains_it(tmp_path: Path) -> None:
    changed = (*output_of("p003", 20), 7, *output_of("p003", 41)[21:])
    run = store(tmp_path, [measurement(), measurement(NGRAM, accepted=3, outputs={3: changed})])
    cell = row(summarize(run), "ngram")
    assert (cell.equivalence, cell.divergent_requests) == ("DIVERGENT", 1)
    assert "not probed" in cell.equivalence_detail
    assert cell.unprobed_requests == 1
    assert summarize(run).decision.recommendation == "NOT ENOUGH EVIDENCE"
    probed = {
        "cell": "chat-ngram-g4-b1",
        "prompt_id": "p003",
        "index": 3,
        "position": 20,
        "baseline_token": output_of("p003", 41)[20],
        "token": 7,
        "margin": 0.01,
    }
    unlikely = {"epsilon": 0.1, "epsilon_pairs": 100, "margins": [{**probed, "margin": None}]}
    run.write_json("equivalence.json", unlikely)
    assert row(summarize(run), "ngram").unprobed_requests == 0
    assert summarize(run).decision.recommendation == "DISABLE"
    run.write_json("equivalence.json", {"epsilon": 0.1, "epsilon_pairs": 100, "margins": [probed]})
    cell = row(summarize(run), "ngram")
    assert (cell.equivalence, cell.near_tie_requests, cell.divergent_requests) == ("NEAR_TIE", 1, 0)
    assert summarize(run).decision.recommendation == "ENABLE"


def test_outputs_at_temperature_are_checked_under_coupled_verification_only(tmp_path: Path) -> None:
    run = [measurement(temperature=0.8), measurement(NGRAM, accepted=3, temperature=0.8)]
    assert row(summarize(store(tmp_path / "a", run)), "ngram").equivalence == "NOT_CHECKED"
    coupled = summarize(store(tmp_path / "b", run, verification="coupled"))
    assert row(coupled, "ngram").equivalence == "EXACT"


def test_a_baseline_that_differs_from_itself_is_the_noise_floor_and_not_a_bug(tmp_path: Path) -> None:
    other = {2: (*output_of("p002", 30), 7)}
    run = [measurement(), measurement(repeat=1, outputs=other), measurement(NGRAM, accepted=3)]
    summary = summarize(store(tmp_path, run))
    assert (summary.noise_floor.compared, summary.noise_floor.differing) == (8, 1)
    assert row(summary, "none").equivalence == "NOT_CHECKED"
    assert row(summary, "ngram").equivalence == "EXACT"
    assert "baseline differs from itself in 12.5%" in summary.text


def test_two_workloads_get_an_answer_each(tmp_path: Path) -> None:
    run = [
        measurement(workload="code"),
        measurement(NGRAM, workload="code", accepted=3, steps=(0.012,)),
        measurement(),
        measurement(NGRAM, accepted=0, steps=(0.012,)),
    ]
    summary = summarize(store(tmp_path, run))
    assert {name: d.recommendation for name, d in summary.by_workload.items()} == {"code": "ENABLE", "chat": "DISABLE"}
    assert summary.decision.recommendation == "DISABLE"
    assert "chat: DISABLE; code: ENABLE (ngram γ4)" in summary.text


def test_failures_are_results(tmp_path: Path) -> None:
    run = [
        measurement(),
        failed(),
        measurement(batch_size=2),
        measurement(NGRAM, 2, accepted=3),
        failed(NGRAM, 2, repeat=1),
    ]
    summary = summarize(store(tmp_path, run))
    dead = row(summary, "ngram")
    assert (dead.status, dead.error) == ("failed", "the server ended with exit code 137.")
    half = row(summary, "ngram", 2)
    assert (half.status, half.measurements) == ("ok", 1)
    assert "failed_measurements" in codes(half)
    assert [f.cell for f in summary.failures] == ["chat-ngram-g4-b1", "chat-ngram-g4-b2"]
    assert [f.measurement for f in summary.failures] == ["chat-ngram-g4-b1-r0k0", "chat-ngram-g4-b2-r0k1"]
    assert summary.failures[0].log_tail == "loading weights\n<b>Killed</b> | out of memory"


@pytest.mark.parametrize(
    "measurements",
    [
        [],
        [measurement()],
        [failed(BASELINE), failed()],
        [failed(BASELINE), measurement(NGRAM, accepted=3)],
        [measurement(batch_size=8), measurement(NGRAM, 8, accepted=3)],
        [measurement(traces=()), measurement(NGRAM, traces=())],
        [
            measurement(traces=tuple(request(i, token_ids=None, error="timeout", output_tokens=0) for i in range(4))),
            measurement(NGRAM, traces=tuple(request(i, error="timeout") for i in range(4))),
        ],
        [
            measurement(traces=tuple(request(i, due=0.5 * i, length=1) for i in range(8))),
            measurement(NGRAM, traces=tuple(request(i, due=0.5 * i, length=1, gamma=4) for i in range(8))),
        ],
    ],
    ids=[
        "nothing",
        "baseline alone",
        "all failed",
        "no baseline",
        "too short",
        "no request",
        "only errors",
        "one token",
    ],
)
def test_a_poor_run_gives_a_poor_summary_and_no_traceback(tmp_path: Path, measurements: list[Measurement]) -> None:
    summary = summarize(store(tmp_path, measurements, gpu_price=None))
    assert summary.decision.recommendation == "NOT ENOUGH EVIDENCE"
    assert "Not enough evidence" in summary.text
    json.dumps(summary.to_json(), allow_nan=False)


def test_without_token_ids_outputs_are_compared_as_text_and_that_is_said(tmp_path: Path) -> None:
    def anonymous(m: Measurement) -> tuple[Any, ...]:
        values = ({f: getattr(t, f) for f in t.__dataclass_fields__} for t in m.traces)
        return tuple(type(m.traces[0])(**{**v, "token_ids": None}) for v in values)

    plain, fast = measurement(), measurement(NGRAM, accepted=3)
    run = [measurement(traces=anonymous(plain)), measurement(NGRAM, traces=anonymous(fast), counters=fast.counters)]
    summary = summarize(store(tmp_path, run))
    assert row(summary, "ngram").equivalence == "EXACT"
    assert "compared as text" in row(summary, "ngram").equivalence_detail
    assert row(summary, "ngram").speedup == pytest.approx(0.5 / 0.2)


def test_a_run_that_is_not_complete_says_so(tmp_path: Path) -> None:
    run = store(tmp_path, [measurement(), measurement(NGRAM, accepted=3)])
    run.write_json("manifest.json", {**run.manifest, "plan": {"launches": 2, "measurements": 24}})
    assert "22 planned measurements are missing" in summarize(RunStore.open(run.path)).text


def test_the_best_of_several_arms_is_one_that_can_be_believed(tmp_path: Path) -> None:
    other = Speculation("ngram", 2)
    runs = [
        measurement(), measurement(NGRAM, accepted=1, steps=(0.001,)), measurement(other, accepted=0, steps=(0.011,)),
    ]  # fmt: skip
    text = summarize(store(tmp_path, runs)).text
    assert "ngram γ2" in text
    assert "ngram γ4" not in text


def test_the_baseline_measured_again_is_the_noise_floor_and_decides_nothing(tmp_path: Path) -> None:
    """Seemingly faster than itself by 2 to 4 %, with an interval above 1: that is what noise looks like."""
    runs = [
        m
        for r, step in enumerate((0.0096, 0.0098, 0.0097))
        for m in (measurement(replicate=r), measurement(AGAIN, replicate=r, steps=(step,)))
    ]
    summary = summarize(store(tmp_path, runs, gpu_price=2.0))
    assert [c.label for c in summary.cells] == ["none", "none, again"]
    _, again = summary.cells
    assert again.speedup is not None
    assert again.speedup == pytest.approx(1.024, abs=0.002)
    assert (again.speedup_ci_low or 0) > 1
    assert again.speedup_sd_percent == pytest.approx(0.8, abs=0.05)
    assert again.equivalence == "EXACT"
    assert (again.is_baseline, again.is_speculative, again.saving_percent) == (False, False, None)
    assert summary.decision.method is None
    assert summary.break_even == ()
    assert "Noise floor of speed: against itself the baseline gives 1.02×" in summary.text
    assert "at batch size 1 (pairs scatter by 0.8%)" in summary.text


def test_replicates_added_until_it_suits_get_an_interval_that_allows_for_it(tmp_path: Path) -> None:
    runs = [
        m
        for r, step in enumerate((0.01, 0.0102, 0.0101, 0.0099, 0.0103))
        for m in (measurement(replicate=r), measurement(NGRAM, accepted=3, replicate=r, steps=(step,)))
    ]
    fixed = summarize(store(tmp_path / "fixed", runs)).cells[1]
    looked = summarize(store(tmp_path / "looked", runs, until_ci=0.03))
    assert fixed.speedup_ci_basis == "replicates"
    assert looked.cells[1].speedup_ci_basis == "always-valid"
    assert looked.cells[1].speedup == fixed.speedup
    assert looked.cells[1].speedup_ci_low < fixed.speedup_ci_low  # type: ignore[operator]
    assert "always-valid 95% interval" in looked.text
    begun = summarize(store(tmp_path / "begun", runs[:6], until_ci=0.03))
    assert (begun.cells[1].speedup_ci_low, begun.decision.recommendation) == (None, "NOT ENOUGH EVIDENCE")
    assert "so few launches bound no speedup while one looks after each" in begun.text
    assert "always-valid" not in summarize(store(tmp_path / "again", runs)).text


def test_an_as_deployed_baseline_stands_beside_and_decides_nothing(tmp_path: Path) -> None:
    runs = [measurement(), measurement(AS_DEPLOYED, steps=(0.008,)), measurement(NGRAM, accepted=3, steps=(0.02,))]
    summary = summarize(store(tmp_path, runs))
    assert [c.label for c in summary.cells] == ["none", "none, as deployed", "ngram γ4"]
    matched, deployed, ngram = summary.cells
    assert (matched.speedup, matched.is_baseline, deployed.is_baseline) == (1.0, True, False)
    assert deployed.speedup == pytest.approx((0.1 + 40 * 0.01) / (0.1 + 40 * 0.008), rel=1e-6)
    assert deployed.equivalence == "EXACT"
    assert deployed.mean_acceptance_length is None
    assert ngram.speedup == pytest.approx((0.1 + 40 * 0.01) / (0.1 + 10 * 0.02), rel=1e-6)
    assert summary.decision.method in (None, "ngram")
    assert {b.method for b in summary.break_even} == {"ngram"}
    assert "Without speculation the engine's own defaults give 1.19×" in summary.text


def test_a_simulated_run_says_so_and_no_other_does(tmp_path: Path) -> None:
    real = store(tmp_path / "real", [measurement()])
    assert summarize(real).headline == "NOT ENOUGH EVIDENCE"
    assert summarize(real).to_json()["simulated"] is False
    made_up = store(tmp_path / "simulated", [measurement()])
    made_up.write_json("manifest.json", {**made_up.manifest, "simulated": {"scenario": "toy"}})
    summary = summarize(RunStore.open(made_up.path))
    assert summary.headline == "SIMULATED: NOT ENOUGH EVIDENCE"
    assert summary.to_json()["simulated"] is True
