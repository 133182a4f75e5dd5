"""A plan as HTML: a page of its own in the look of the report, and a section of the report of the run behind it."""

from __future__ import annotations

import math
from base64 import b64encode

from specbench.planning.sizing import text
from specbench.planning.sizing.plan import Plan
from specbench.report.figure_file import rendered
from specbench.report.html import environment
from specbench.report.kept_plan import Section
from specbench.report.tornado import draw_tornado


def plan_section(plan: Plan, mark: str = "") -> Section:
    """What the templates show, as texts and rows of texts. mark: stands before the verdict, as SIMULATED"""
    return {
        "mark": mark,
        "kind": {0: "enable", 3: "disable", 4: "unsure"}[plan.sized.decision.exit_code],
        "verdict": plan.sized.decision.recommendation,
        "site": plan.sized.site.name,
        "method": plan.known.arm[1],
        "headline": text.headline(plan),
        "lines": [text.schedule_text(plan), *text.money_lines(plan)],
        "tables": [table._asdict() for table in text.tables(plan)],
        "next_line": text.next_line(plan),
        "assumptions": text.assumptions(plan),
        "tornado": _tornado(plan),
    }


def render_plan(section: Section) -> str:
    return environment().get_template("plan.html.j2").render(plan=section)


def _tornado(plan: Plan) -> str | None:
    """As the content of an image, in which nothing runs; None where nothing moves the saving."""
    if not any(math.isfinite(s.width) for s in plan.swings):
        return None
    return b64encode(rendered(draw_tornado(plan), "svg")).decode()
