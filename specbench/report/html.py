"""The report as one HTML file that asks the network for nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from specbench.analysis.summary import RunSummary
from specbench.claims.published import Judgement, judge, published_claims
from specbench.report import figures
from specbench.report.open_loop import NOTE, open_loop_rows
from specbench.report.page.data import page_data
from specbench.report.page.divergences import divergent_texts
from specbench.report.page.key_figures import key_figures
from specbench.report.page.marks import marked
from specbench.report.recipe import COMMAND, config_yaml, made_with
from specbench.report.style import PAGE_COLOURS
from specbench.store.measurement import Measurement

_DIRECTIONS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")
"""Signs that turn the direction of text: in a name from outside they would turn the sentence around it too."""


def render_html(summary: RunSummary, measurements: Sequence[Measurement], plan: Mapping[str, Any] | None = None) -> str:
    """The page. Everything that comes from outside is escaped, and drawn by scripts as text only.

    plan: a section that `specbench plan` kept with the run
    """
    data = page_data(summary, measurements)
    page = (
        environment()
        .get_template("page.html.j2")
        .render(
            summary=summary,
            data=data,
            data_block=_script_json(data),
            colours=PAGE_COLOURS,
            workloads=list(dict.fromkeys(c.workload for c in summary.rows)),
            currency=next((c.currency for c in summary.cells if c.currency), None),
            key_figures=key_figures(summary),
            divergences=divergent_texts(summary, measurements),
            marked=marked(summary.cells),
            published=_published(),
            command=COMMAND,
            config=config_yaml(summary),
            made_with=made_with(summary),
            plan=plan,
        )
    )
    return page.translate(_DIRECTIONS)


@cache
def environment() -> Environment:
    """Of the templates: everything is escaped."""
    found = Environment(
        loader=PackageLoader("specbench.report.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals |= {
        "figures": figures,
        "open_loop_rows": open_loop_rows,
        "open_loop_note": NOTE,
        "asset": _asset,
    }
    return found


@cache
def _published() -> tuple[Judgement, ...]:
    return tuple(map(judge, published_claims()))


def _asset(path: str) -> Markup:
    """A script or a style sheet of ours, to stand within its element."""
    return Markup(files("specbench.report").joinpath(path).read_text(encoding="utf-8"))


def _script_json(value: Any) -> Markup:
    """JSON that no text within can end a script element with, or be taken for markup."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
