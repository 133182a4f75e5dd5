"""A plan as a page, as a section of a run's report, and as a plot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_pages import HOSTILE, Page, kept

from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import catalogue, find_gpu
from specbench.planning.sizing.demand import Demand
from specbench.planning.sizing.known import from_catalogue
from specbench.planning.sizing.plan import Plan, Terms, plan
from specbench.planning.sizing.site import other_sites, site_of
from specbench.planning.sizing.target import shape_of
from specbench.report import kept_plan
from specbench.report.html import render_html
from specbench.report.plan_page import plan_section, render_plan
from specbench.report.tornado import draw_tornado


@pytest.fixture(scope="module")
def made() -> Plan:
    gpu = find_gpu("H100", catalogue())
    site = site_of(gpu, 1, shape_of("llama-3.1-8b"), "bf16", 2.0, "USD")
    known = from_catalogue(site.shape, gpu, site.machine, "eagle3").accepting((0.75,))
    demand = Demand(50.0, 150.0, np.full(1, 400, np.int32), np.full(1, 100, np.int32), "chat")
    terms = Terms({"tpot_p95": 0.03}, 0.2, 1, 64, 1e4, 24.0, "USD", 500, 0)
    return plan(known, site, other_sites(site, "bf16", [find_gpu("L4", catalogue())], ["fp8"], "USD"), demand, terms)


def test_the_page_is_whole_says_the_verdict_first_and_refers_to_nothing_outside(made: Plan) -> None:
    section = plan_section(made)
    page = Page(render_plan(section))
    assert page.open == []
    links = [v for _, attrs in page.tags for name, v in attrs.items() if name in ("href", "src")]
    assert len(links) == 1
    assert str(links[0]).startswith("data:image/svg+xml;base64,")
    assert "script" not in {tag for tag, _ in page.tags}
    text = render_plan(section)
    assert text.index(section["headline"]) < text.index("What would change the decision")
    assert [table["name"] for table in section["tables"]] == ["fleet", "what_ifs", "sensitivity", "thumb_rules"]
    assert all(row[0] in text for table in section["tables"] for row in table["rows"])


def test_a_simulated_run_is_named_above_all(made: Plan) -> None:
    text = render_plan(plan_section(made, "SIMULATED: "))
    assert text.index("<strong>SIMULATED.</strong>") < text.index("<h1")


def test_the_tornado_has_a_bar_per_input_and_a_colour_for_those_that_decide(made: Plan) -> None:
    axes = draw_tornado(made).axes[0]
    assert len(axes.patches) == len(made.swings)
    colours = [bar.get_facecolor() for bar in axes.patches]
    assert len({c for c, s in zip(colours, made.swings, strict=True) if s.flips}) <= 1
    assert {c for c, s in zip(colours, made.swings, strict=True) if s.flips}.isdisjoint(
        c for c, s in zip(colours, made.swings, strict=True) if not s.flips
    )
    with pytest.raises(SpecbenchError, match="nothing to plot"):
        draw_tornado(replace(made, swings=()))
    assert plan_section(replace(made, swings=()))["tornado"] is None


def test_a_report_shows_what_was_kept_and_nothing_in_it_runs(made: Plan, tmp_path: Path) -> None:
    from specbench.analysis.summary import summarize

    run = kept(tmp_path, "small")
    hostile: dict[str, Any] = {**plan_section(made), "headline": HOSTILE[0], "tornado": HOSTILE[1], "lines": [*HOSTILE]}
    kept_plan.keep(hostile, run.path)
    plain = Page(render_html(summarize(run), run.measurements()))
    page = Page(render_html(summarize(run), run.measurements(), kept_plan.kept(run.path)))
    assert page.open == []
    count = [tag for tag, _ in page.tags].count
    assert count("script") == [tag for tag, _ in plain.tags].count("script")
    assert count("img") == 1
    assert not any(name.startswith("on") for tag, attrs in page.tags for name in attrs if tag == "img")
    assert ("section", "plan") in [(tag, attrs.get("id")) for tag, attrs in page.tags]


@pytest.mark.parametrize("content", ["[]", "{}", "no JSON", json.dumps({"headline": "x"})])
def test_what_no_plan_wrote_is_refused(content: str, tmp_path: Path) -> None:
    assert kept_plan.kept(tmp_path) is None
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(SpecbenchError, match="no plan of specbench"):
        kept_plan.kept(tmp_path)
