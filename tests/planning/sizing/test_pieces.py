"""What a plan is made of: demand, memory, assumed acceptance, hardware that was not measured, the model's name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_case import ARM, CHAT, MODEL, case

from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import catalogue, find_gpu
from specbench.planning.fit import unfitted
from specbench.planning.machine import UNKNOWN, Machine
from specbench.planning.parameters import Model
from specbench.planning.sizing import transfer
from specbench.planning.sizing.acceptance import with_acceptance
from specbench.planning.sizing.demand import Demand
from specbench.planning.sizing.memory import DrafterSize, drafter_size, kv_tokens, weight_bytes
from specbench.planning.sizing.next_cells import next_cells
from specbench.planning.sizing.sensitivity import swings
from specbench.planning.sizing.target import SHIPPED, dtype_of, shape_of, with_weights
from specbench.planning.sizing.thumb import thumbs
from specbench.workloads.traffic import Traffic
from specbench.workloads.traffic_spec import parse_traffic_spec
from specbench.yaml_file import read_mapping


def trace(arrival: list[float]) -> Traffic:
    count = len(arrival)
    return Traffic(np.array(arrival), np.full(count, 100, np.int32), np.full(count, 50, np.int32))


def test_a_traces_peak_is_its_busiest_five_minutes() -> None:
    """An hour at one a second, but three a second from 1800 s to 2100 s."""
    arrival = sorted([*np.arange(0, 3600.5, 1.0), *np.arange(1800.2, 2100, 0.5)])
    found = Demand.of_traffic(trace(arrival), "trace")
    assert found.peak == pytest.approx(3.0, rel=0.01)
    assert found.mean == pytest.approx(4200 / 3600, rel=0.01)


def test_a_trace_without_a_span_is_refused() -> None:
    with pytest.raises(SpecbenchError, match="two requests at different times"):
        Demand.of_traffic(trace([0.0]), "trace")


def test_words_give_rates_lengths_and_peak() -> None:
    found = Demand.of_spec(parse_traffic_spec("50 req/s, prompt 800±300, output 250, peak 3x at 14h"), "words")
    assert (found.mean, found.peak) == pytest.approx((50, 150))
    assert found.prompt_tokens == pytest.approx(800, rel=0.02)
    assert found.output_tokens == 250


def test_a_volume_is_a_rate_of_the_month() -> None:
    found = CHAT.of_volume(10e9)
    assert found.mean == pytest.approx(10e9 / (730 * 3600 * 250))
    assert found.peak / found.mean == pytest.approx(CHAT.peak / CHAT.mean)
    assert found.output_tokens_per_month == pytest.approx(10e9)


@given(st.floats(0.01, 1000), st.floats(0.01, 1000), st.floats(0.3, 3))
def test_two_rates_meet_the_same_requests(one: float, other: float, cv: float) -> None:
    demand = Demand(1, 1, np.arange(1, 90, dtype=np.int32), np.arange(101, 190, dtype=np.int32), "", cv)
    few, many = demand.requests(one, 500, seed=3), demand.requests(other, 500, seed=3)
    assert (few.prompt_tokens == many.prompt_tokens).all()
    assert (few.output_tokens - few.prompt_tokens == 100).all()
    assert few.arrival * one == pytest.approx(many.arrival * other)


def test_a_cache_holds_what_memory_leaves() -> None:
    """Llama 3.1 8B in 16 bits on an 80 GiB GPU: 32 layers of 8 heads of 128, keys and values, 2 bytes: 128 KiB."""
    shape = shape_of("llama-3.1-8b")
    room = 0.9 * 80 * 2**30 - 3 * 2**30 - weight_bytes(shape)
    assert weight_bytes(shape) == pytest.approx(15e9, rel=0.02)
    assert kv_tokens(shape, DrafterSize(), 80 * 2**30, 1) == int(room / (128 * 1024))
    assert kv_tokens(shape, DrafterSize(), 12 * 2**30, 1) < 1


def test_drafters_take_their_share() -> None:
    """EAGLE-3 keeps one layer's cache: 1/80 of a 70B model's, 1/32 of an 8B's."""
    large, small = shape_of("llama-3.3-70b"), shape_of("llama-3.1-8b")
    assert drafter_size("eagle3", large).kv_bytes_per_token == large.kv_bytes_per_token / 80
    assert drafter_size("eagle3", small).kv_bytes_per_token == small.kv_bytes_per_token / 32
    assert drafter_size("ngram", large) == DrafterSize()
    assert drafter_size("draft_model", large).kv_bytes_per_token == pytest.approx(0.1 * large.kv_bytes_per_token)


@given(st.lists(st.floats(0.05, 0.95), min_size=1, max_size=2))
def test_an_assumed_acceptance_is_what_the_model_then_accepts(chances: list[float]) -> None:
    fit = with_acceptance(unfitted(MODEL, 0.02), ARM, chances)
    assert MODEL.hazards(fit.theta, ARM, 4) == pytest.approx([chances[0], *[chances[-1]] * 3])


def test_an_assumed_decay_goes_on() -> None:
    fit = with_acceptance(unfitted(MODEL, 0.02), ARM, (0.8, 0.7, 0.6))
    found = MODEL.hazards(fit.theta, ARM, 5)
    assert found[:3] == pytest.approx([0.8, 0.7, 0.6])
    assert 0.6 > found[3] > found[4]


@pytest.mark.parametrize("chances", [[], [1.0], [0.5, 0.0], [float("nan")]])
def test_acceptance_is_a_chance(chances: list[float]) -> None:
    with pytest.raises(SpecbenchError, match="above 0 and below 1"):
        with_acceptance(unfitted(MODEL, 0.02), ARM, chances)


def test_where_it_was_measured_a_fit_stays_as_it_is() -> None:
    fit = unfitted(MODEL, 0.02)
    assert transfer.moved(fit, MODEL.shape, MODEL.machine) is fit


def test_on_other_hardware_efficiency_is_less_sure_and_acceptance_as_sure() -> None:
    fit = unfitted(MODEL, 0.02)
    found = transfer.moved(fit, MODEL.shape, Machine.of(find_gpu("B300", catalogue()), 4))
    before, after = np.diag(fit.covariance), np.diag(found.covariance)
    engine = ["." not in name for name in MODEL.names]
    assert after[engine] == pytest.approx(before[engine] + transfer.SPREAD**2)
    assert (found.theta == fit.theta).all()
    assert (after[~np.array(engine)] == before[~np.array(engine)]).all()


def test_of_a_machine_of_unknown_rates_only_the_drafts_are_carried_over() -> None:
    there = Model(MODEL.shape, UNKNOWN, (ARM,))
    fit = with_acceptance(unfitted(there, 0.02), ARM, (0.9,))
    fit.theta[:6] = 5.0
    found = transfer.moved(fit, MODEL.shape, MODEL.machine)
    assert found.theta[:6] == pytest.approx(MODEL.prior().mean[:6])
    assert np.diag(found.covariance)[:6] == pytest.approx(MODEL.prior().spread[:6] ** 2)
    assert MODEL.hazards(found.theta, ARM, 1) == pytest.approx([0.9])


def test_a_model_is_a_known_shape_a_file_or_a_directory(tmp_path: Path) -> None:
    config = read_mapping(SHIPPED)["qwen3-8b"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert shape_of(str(tmp_path)) == shape_of(str(tmp_path / "config.json")) == shape_of("Qwen3-8B")
    with pytest.raises(SpecbenchError, match="Did you mean llama"):
        shape_of("llama-3.3-70")
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(SpecbenchError, match="no JSON object"):
        shape_of(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "billions"),
    [("llama-3.1-8b", 8.0), ("llama-3.3-70b", 70.6), ("llama-3.1-405b", 405), ("qwen3-235b-a22b", 235)],
)
def test_shipped_shapes_have_the_parameters_of_their_names(name: str, billions: float) -> None:
    shape = shape_of(name)  # without the input embedding
    assert (shape.shared + shape.experts) / 1e9 == pytest.approx(billions, rel=0.08)


def test_weights_have_types() -> None:
    fp8, precision = with_weights(shape_of("llama-3.1-8b"), "fp8")
    assert (fp8.weight_bytes, precision, dtype_of(fp8)) == (1.0, "fp8", "fp8")
    with pytest.raises(SpecbenchError, match="no type of weights"):
        with_weights(fp8, "fp3")


def test_swings_hold_what_moves_the_saving_and_say_what_decides() -> None:
    of = case(demand=CHAT.times(20))
    found = {s.what: s for s in swings(of, (1.0, 4.0), needed=1.0, currency="USD")}
    price = found["price of a GPU-hour"]
    assert price.saving_high == pytest.approx(4 * price.saving_low)
    assert not price.flips
    assert all(s.width > 0 for s in found.values())
    assert found["traffic"].saving_high > found["traffic"].saving_low
    # At a price at which planned savings just pay, a lower one flips it.
    planned = price.saving_low * 2
    edge = {s.what: s for s in swings(of, (1.0, 4.0), needed=planned * 0.9, currency="USD")}
    assert edge["price of a GPU-hour"].flips
    flips = [s.flips for s in swings(of, (1.0, 4.0), needed=planned * 0.9, currency="USD")]
    assert flips == sorted(flips, reverse=True)


def test_each_cell_to_measure_leaves_less_uncertain() -> None:
    found = next_cells(case(), range(1, 6), batch_size=20)
    shares = [cell.share for cell in found]
    assert shares == sorted(shares)
    assert 0.3 < shares[0] <= shares[-1] < 1
    assert len({(c.gamma, c.batch_size) for c in found}) == 3


def test_rules_of_thumb_agree_mislead_or_cannot_be_judged() -> None:
    found = {t.rule: t for t in thumbs(0.6, 20.0, 0.8, 1.5, "ENABLE UP TO BATCH 32")}
    assert found["acceptance above 50% pays"].agrees is True
    assert found["acceptance above 70% pays"].agrees is False
    assert found["cost falls by the speedup at batch size 1"].figure == "1.50 times, so 33% less"
    assert {t.agrees for t in thumbs(0.6, 20.0, 0.8, 1.5, "NOT ENOUGH EVIDENCE")} == {None}
