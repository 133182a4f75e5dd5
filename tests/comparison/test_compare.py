"""Runs of known truth against each other: what changed, what that did, and what is not compared."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from known_gate import BREEZE, CALM, key, run, stored
from known_run import NGRAM, failed, measurement

from specbench.comparison.compare import Wanted, compare
from specbench.comparison.metrics import COST
from specbench.comparison.result import Against, Comparison, Effect
from specbench.comparison.sides import Side, load_sides, read_back
from specbench.errors import SpecbenchError
from specbench.speculation import BASELINE, Speculation

Sides = tuple[Side, Side, Side]


def compared(*paths: Path, **wanted: Any) -> Comparison:
    return compare(load_sides(paths), Wanted(**wanted))


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    """Two runs that do not differ, and one whose speculative steps are 10% longer."""
    folder = tmp_path_factory.mktemp("runs")
    run(folder / "a", noise=CALM)
    run(folder / "b", noise=BREEZE)
    run(folder / "slow", noise=BREEZE, slower=1.1)
    a, b, slow = load_sides([folder / name for name in ("a", "b", "slow")])
    return a, b, replace(slow, letter="B")


def measured_on(side: Side, **fingerprint: Any) -> Side:
    """The same figures, measured under other conditions."""
    snapshot = side.snapshot.model_copy(update={"fingerprint": {**side.snapshot.fingerprint, **fingerprint}})
    return replace(side, snapshot=snapshot)


def with_cells(side: Side, batch_sizes: dict[int, int]) -> Side:
    """The side with its batch sizes renamed."""
    cells = tuple(c.model_copy(update={"batch_size": batch_sizes[c.batch_size]}) for c in side.snapshot.cells)
    return replace(side, snapshot=side.snapshot.model_copy(update={"cells": cells}))


def effect(found: Against, metric: str, batch_size: int = 1, gamma: int = 4) -> Effect:
    (only,) = (
        e for e in found.effects if e.metric == metric and e.cell.batch_size == batch_size and e.cell.gamma == gamma
    )
    return only


def test_a_slowdown_of_ten_percent_is_found_in_every_figure_that_it_is_in(sides: Sides) -> None:
    (found,) = compare([sides[0], sides[2]]).against
    slow = effect(found, "speedup", 4)
    assert slow.outcome == "worse"
    assert slow.before == pytest.approx(2 / 1.2, rel=1e-3)
    assert slow.change == pytest.approx(1 / 1.1 * math.exp(-(sum(BREEZE) - sum(CALM)) / 5))
    assert effect(found, "output_tokens_per_s").outcome == "worse"
    assert effect(found, "tpot_ms_p50").outcome == "worse"
    assert effect(found, "mean_acceptance_length").outcome == "same"
    assert effect(found, "output_tokens_per_s", gamma=0).outcome == "same"


def test_runs_that_do_not_differ_say_how_large_a_difference_would_have_been_seen(sides: Sides) -> None:
    (found,) = compare(sides[:2]).against
    assert {e.outcome for e in found.effects} == {"same", "none found"}
    assert 1.01 < effect(found, "speedup").detectable < 1.03  # type: ignore[operator]
    assert found.changes == ()


def test_a_run_against_itself_is_the_same(sides: Sides) -> None:
    (itself,) = compare([sides[0], sides[0]]).against
    assert {e.outcome for e in itself.effects} == {"same"}


def test_several_runs_are_each_held_against_the_first_in_one_family(sides: Sides) -> None:
    a, b, slow = sides
    three = compare([a, b, replace(slow, letter="C")], Wanted(metrics=("speedup",)))
    two = compare([a, slow], Wanted(metrics=("speedup",)))
    assert [a.run for a in three.against] == ["B", "C"]
    assert (three.family, two.family) == (4, 2)
    (alone, _), (among, _) = two.against[0].effects, three.against[1].effects
    assert alone.change == among.change
    assert alone.p == among.p
    assert alone.p_holm < among.p_holm  # type: ignore[operator]


def test_versions_flags_and_settings_read_back_are_named(tmp_path: Path) -> None:
    sides = {"a": ("0.31", 512, {"max_model_len": 2048}), "b": ("0.32", 1024, {"max_model_len": 4096})}
    for name, (version, block, config) in sides.items():
        store = run(tmp_path / name, config=config, noise=CALM[:1], batch_sizes=(1,))
        for launch in ("none-r0", "none-r1", "ngram-g4-r0"):
            raw = {"cache": {"block": block, "port": launch}, "version": version}
            store.write_json(f"launches/{launch}.json", {"engine": "vLLM", "version": version, "raw": raw})
    (found,) = compared(tmp_path / "a", tmp_path / "b").against
    assert [*map(str, found.changes)] == [
        "engine: vLLM 0.31 → vLLM 0.32",
        "--max-model-len: 2048 → 4096",
        "read back: cache.block: 512 → 1024",
    ]
    assert effect(found, "output_tokens_per_s").change == 1.0


def test_what_launches_of_one_arm_do_not_share_is_no_setting() -> None:
    launches = {f"ngram-g4-r{r}": {"raw": {"port": r, "dtype": "bf16"}, "kv_capacity_tokens": 64} for r in range(2)}
    assert read_back(launches) == {"ngram-g4": {"dtype": "bf16", "kv_capacity_tokens": "64"}}


@pytest.mark.parametrize(
    ("conditions", "says"),
    [
        ({"target": "12" * 32}, "target: abababab.* → 12121212"),
        ({"--temperature": 0.8}, "--temperature: 0.0 → 0.8"),
        ({"arrivals": "gamma:2"}, "arrivals: none → gamma:2"),
        ({"workload chat": "99" * 32}, "chat: other prompts under that name"),
    ],
)
def test_other_work_is_refused_with_the_reason(sides: Sides, conditions: dict[str, Any], says: str) -> None:
    a, b, _ = sides
    with pytest.raises(SpecbenchError, match=f"a and .*b cannot be compared: .*{says}"):
        compare([a, measured_on(b, **conditions)])


def test_a_simulation_is_not_held_against_a_measurement(sides: Sides) -> None:
    a, b, _ = sides
    simulated = replace(b, snapshot=b.snapshot.model_copy(update={"simulated": True}))
    with pytest.raises(SpecbenchError, match="b is a simulation"):
        compare([a, simulated])


def test_one_run_that_is_refused_leaves_the_others_compared_and_says_so_by_the_exit_code(sides: Sides) -> None:
    a, b, _ = sides
    both = compare([a, b, replace(measured_on(b, target="12" * 32), letter="C")])
    assert both.against[0].is_judged
    assert both.against[1].refused == ("target: ababababab… → 1212121212…",)
    assert both.exit_code == 4
    assert compare([a, b]).exit_code == 0


@pytest.mark.parametrize(
    ("conditions", "caveat"), [({"hardware": "1 × H200"}, "Two machines"), ({"backend": "sglang"}, "Two engines")]
)
def test_of_another_machine_or_engine_ratios_alone_are_compared(
    sides: Sides, conditions: dict[str, str], caveat: str
) -> None:
    a, slow = sides[0], measured_on(sides[2], **conditions)
    comparison = compare([a, slow])
    (found,) = comparison.against
    assert {e.metric for e in found.effects} == {"speedup", "mean_acceptance_length"}
    assert effect(found, "speedup").outcome == "worse"
    (left_out,) = found.left_out
    assert left_out.startswith("output_tokens_per_s, tpot_ms_p50: of another machine or engine")
    assert any(text.startswith(caveat) for text in comparison.caveats)
    with pytest.raises(SpecbenchError, match="ttft_ms_p95: of another machine"):
        compare([a, slow], Wanted(metrics=("ttft_ms_p95",)))


def test_cells_that_one_run_lacks_are_listed(sides: Sides) -> None:
    a, b, _ = sides
    (found,) = compare([a, with_cells(b, {1: 1, 4: 8})], Wanted(metrics=("speedup",))).against
    assert found.only_in_reference == (key(4)._replace(method="none", gamma=0), key(4))
    assert found.only_here == (key(8)._replace(method="none", gamma=0), key(8))
    assert [e.cell for e in found.effects] == [key(1)]


def eagle(path: Path, step: float = 0.01) -> None:
    """A run of another method, three launches."""
    arm = Speculation("eagle3", 2, "head")
    taken = []
    for r, wobble in enumerate((0.99, 1.0, 1.01)):
        common = {"requests": 6, "replicate": r, "prefill": 0.0}
        taken += [
            measurement(BASELINE, steps=(0.01,), **common),
            measurement(NGRAM, steps=(0.012 * wobble,), accepted=1, **common),
            measurement(arm, steps=(step * wobble,), accepted=1, **common),
        ]
    stored(path, taken)


def test_two_methods_in_different_runs_are_set_against_each_other_by_arm(sides: Sides, tmp_path: Path) -> None:
    eagle(tmp_path / "b")
    comparison = compared(sides[0].path, tmp_path / "b", arms=("ngram-g4", "eagle3-g2"), metrics=("speedup",))
    (only,) = comparison.effects()
    assert (only.cell.arm, only.other_cell.arm) == ("ngram-g4", "eagle3-g2")
    assert only.outcome == "better"
    assert only.change == pytest.approx(1.2, rel=0.01)


def test_two_arms_of_one_run_are_pairs(tmp_path: Path) -> None:
    """Both arms of a launch's turn share its luck: what noise hides between runs is plain within one."""
    eagle(tmp_path / "run", step=0.01195)
    (only,) = compared(
        tmp_path / "run", tmp_path / "run", arms=("ngram-g4", "eagle3-g2"), metrics=("speedup",)
    ).effects()
    assert only.basis == "paired replicates"
    assert only.change == pytest.approx(0.012 / 0.01195, rel=1e-6)
    assert only.outcome == "better"


@pytest.mark.parametrize(
    ("arms", "says"),
    [
        (("ngram-g4",), "--arm names one arm for each run"),
        (("ngram-g4", "medusa-g3"), "has no arm 'medusa-g3'. It has: none, ng"),
    ],
)
def test_an_arm_that_is_none_is_refused(sides: Sides, arms: tuple[str, ...], says: str) -> None:
    with pytest.raises(SpecbenchError, match=says):
        compare(sides[:2], Wanted(arms=arms))


def test_costs_are_at_one_price(sides: Sides) -> None:
    a, b, _ = sides
    dear = replace(b, snapshot=b.snapshot.model_copy(update={"gpu_price": 50.0}))
    comparison = compare([a, dear], Wanted(metrics=(COST,), gpu_price=3.0))
    assert any("charged 3 per GPU-hour" in text for text in comparison.caveats)
    cost = effect(comparison.against[0], COST)
    speed = effect(compare([a, b]).against[0], "output_tokens_per_s")
    assert cost.outcome == "none found"
    assert (cost.before, cost.change) == pytest.approx((3e6 / 3600 / speed.before, 1 / speed.change))  # type: ignore[operator]
    free = replace(a, snapshot=a.snapshot.model_copy(update={"gpu_price": None}))
    with pytest.raises(SpecbenchError, match="needs a price: add --gpu-price"):
        compare([free, free], Wanted(metrics=(COST,)))
    for wrong in (0.0, -1.0):
        with pytest.raises(SpecbenchError, match="--gpu-price: expected a number above 0"):
            Wanted(gpu_price=wrong)


def test_every_pair_is_charged_what_the_caveat_says(sides: Sides) -> None:
    """The reference has no price and the others each their own: the first of them is charged to all."""
    priced = [
        replace(side, letter=letter, snapshot=side.snapshot.model_copy(update={"gpu_price": price}))
        for side, letter, price in zip((sides[0], sides[1], sides[1]), "ABC", (None, 2.0, 50.0), strict=True)
    ]
    comparison = compare(priced, Wanted(metrics=(COST,)))
    assert any("charged 2 per GPU-hour" in text for text in comparison.caveats)
    one, other = (effect(against, COST) for against in comparison.against)
    assert (one.before, one.after) == (other.before, other.after)


def test_what_is_missing_is_said_by_what_it_is_of(sides: Sides) -> None:
    bare = [
        replace(
            side,
            snapshot=side.snapshot.model_copy(
                update={"cells": tuple(c.model_copy(update={"figures": {}}) for c in side.snapshot.cells)}
            ),
        )
        for side in sides[:2]
    ]
    names = ("speedup", "output_tokens_per_s", "tpot_ms_p50", "memory_bytes_peak", "kv_capacity_tokens")
    texts = {e.metric: e.text for e in compare(bare, Wanted(metrics=names)).effects()}
    window = "too few requests for a steady window."
    assert texts == {name: window if i < 2 else "not reported." for i, name in enumerate(names)}


def test_memory_is_the_same_on_every_day(sides: Sides) -> None:
    a, b, _ = sides
    sized = compare([a, b], Wanted(metrics=("speedup", "memory_bytes_peak")))
    timed = compare([a, b], Wanted(metrics=("memory_bytes_peak", "tpot_ms_p50")))
    assert not any("sets two days apart" in text for text in sized.caveats)
    assert [text.partition(":")[0] for text in timed.caveats if "sets two days apart" in text] == ["tpot_ms_p50"]


def test_a_cell_that_died_is_not_judged_and_says_why(sides: Sides, tmp_path: Path) -> None:
    stored(tmp_path / "b", [m for r in range(2) for m in (measurement(replicate=r), failed(NGRAM, replicate=r))])
    (found,) = compared(sides[0].path, tmp_path / "b").against
    dead = effect(found, "speedup")
    assert dead.outcome == "not judged"
    assert dead.before == pytest.approx(1.667, rel=1e-2)
    assert dead.text == "the server ended with exit code 137."


def test_a_figure_that_is_void_on_both_sides_is_named_not_dropped(sides: Sides) -> None:
    a, b, _ = sides
    reason = "5 of 5 replicates not counted. Void: the replaying client lagged."
    void = [
        replace(
            side,
            snapshot=side.snapshot.model_copy(
                update={
                    "cells": tuple(
                        c.model_copy(update={"figures": {}, "left_out": (reason,)}) for c in side.snapshot.cells
                    )
                }
            ),
        )
        for side in (a, b)
    ]
    comparison = compare(void)
    assert {e.outcome for e in comparison.effects()} == {"not judged"}
    assert {e.text for e in comparison.effects()} == {reason}
    assert comparison.exit_code == 4


def test_outputs_that_are_no_longer_plain_decodings_are_named(sides: Sides, tmp_path: Path) -> None:
    taken = [
        measurement(s, replicate=r, requests=6, accepted=1, outputs={} if s == BASELINE else {2: (1, 2, 3)})
        for r in range(2)
        for s in (BASELINE, NGRAM)
    ]
    stored(tmp_path / "b", taken)
    (found,) = compared(sides[0].path, tmp_path / "b").against
    assert [*map(str, found.outputs)] == [f"{key()}: EXACT → DIVERGENT"]


def test_a_baseline_file_stands_in_for_its_run(sides: Sides, tmp_path: Path) -> None:
    a, _, slow = sides
    a.snapshot.write(tmp_path / "a.json")
    (from_file,) = compare([*load_sides([tmp_path / "a.json", slow.path])]).against
    (from_run,) = compare([a, slow]).against
    for one, other in zip(from_run.effects, from_file.effects, strict=True):
        assert one.outcome == other.outcome
        assert one.change == pytest.approx(other.change, rel=1e-6)


def test_json_is_json_with_every_key_documented(sides: Sides) -> None:
    record = json.loads(json.dumps(compare([sides[0], sides[2]]).to_json(), allow_nan=False))
    document = (Path(__file__).parents[2] / "docs" / "columns.md").read_text(encoding="utf-8")
    section = document.split("## Comparisons\n")[1].split("\n## ")[0]
    keys = {*record, *record["runs"][0], *record["against"][0], *record["against"][0]["effects"][0]}
    assert {name for name in keys if f"`{name}`" not in section} == set()


def test_one_run_is_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match="give two to 26 runs"):
        load_sides([tmp_path])


def test_a_metric_that_is_none_is_refused() -> None:
    with pytest.raises(SpecbenchError, match="cannot compare 'speed'"):
        Wanted(metrics=("speed",))


def test_runs_without_a_cell_in_common_are_refused_with_the_way_out(sides: Sides) -> None:
    a, b, _ = sides
    with pytest.raises(SpecbenchError, match=r"no cell in common.*--arm ngram-g4,eagle3-g4"):
        compare([a, with_cells(b, {1: 2, 4: 8})])


def test_a_side_is_the_same_run_by_its_place(sides: Sides) -> None:
    a, b, _ = sides
    assert a.is_same_run(replace(a, path=b.path / ".." / "a"))
    assert not a.is_same_run(b)
