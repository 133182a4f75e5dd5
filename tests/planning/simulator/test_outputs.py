"""What is handed on of a simulation: Prometheus text, a plot, a table."""

from __future__ import annotations

import math

import pytest
from clockwork import Geometric, clockwork
from prometheus_client.parser import text_string_to_metric_families

from specbench.planning.simulator import Fleet, Outcome, Renewal, simulate
from specbench.planning.simulator.prometheus import prometheus_text
from specbench.planning.simulator.text import columns, regret, rows
from specbench.report.simulation import draw_simulation
from specbench.workloads.traffic_spec import Lengths


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    arrivals = Renewal(5, Lengths(20), Geometric(30), 400)
    policies = ("none", "fixed:3", "oracle")
    return [simulate(Fleet(clockwork(policy=p, max_batch_size=4), 2), arrivals, slo={"ttft": 0.05}) for p in policies]


def test_prometheus_reads_what_is_written(outcomes: list[Outcome]) -> None:
    families = {f.name: f for f in text_string_to_metric_families(prometheus_text(outcomes[1]))}
    latency = families["specbench_simulated_request_latency_seconds"]
    by_name = {(s.name.rpartition("_")[2], s.labels.get("le")): s.value for s in latency.samples}
    assert by_name["count", None] == outcomes[1].e2e.count
    assert by_name["sum", None] / by_name["count", None] == pytest.approx(outcomes[1].e2e.mean().value)
    counts = [s.value for s in latency.samples if s.name.endswith("_bucket")]
    assert counts == sorted(counts)
    assert counts[-1] == outcomes[1].e2e.count
    assert all(s.labels["policy"] == "fixed:3" for s in latency.samples)
    assert all(name.startswith("specbench_simulated_") for name in families)


def test_the_plot_has_a_colour_per_policy(outcomes: list[Outcome]) -> None:
    figure = draw_simulation(outcomes, {"ttft_p95": 0.05}, "traffic")
    requests, ttft, *_ = figure.axes
    assert [line.get_label() for line in requests.lines] == ["requests that come", "none", "fixed:3", "oracle"]
    assert len(ttft.lines) == 4, "with the bound"
    assert len(figure.axes) == 5


def test_the_table_has_a_column_per_policy_and_what_it_regrets(outcomes: list[Outcome]) -> None:
    table = rows(outcomes, {"ttft_p95": 0.05})
    assert {len(row) for row in table} == {len(columns(outcomes))} == {4}
    assert regret(outcomes[2], outcomes) == 0
    assert (regret(outcomes[0], outcomes) or 0) > 0.5, "plain decoding, where drafts cost nothing"
    assert regret(outcomes[0], outcomes[:2]) is None
    kept = {row[0]: row[1:] for row in table}["objective kept"]
    assert kept == tuple("yes" if o.meets({"ttft_p95": 0.05}) else "no" for o in outcomes)


def test_goodput_is_what_kept_the_objective(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        within = outcome.goodput_requests_per_s / outcome.requests_per_s
        assert outcome.ttft.quantile(max(0.0, within - 0.02)).value <= 0.0505
        assert within > 0.98 or outcome.ttft.quantile(within + 0.02).value >= 0.0495


def test_json_holds_no_number_that_is_none(outcomes: list[Outcome]) -> None:
    for value in outcomes[0].to_dict().values():
        figures = value.values() if isinstance(value, dict) else [value]
        assert not any(isinstance(v, float) and math.isnan(v) for v in figures)
