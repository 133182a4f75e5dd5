"""The report as one HTML file that asks the network for nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from specbench.analysis.summary import RunSummary
from specbench.report import figures
from specbench.report.open_loop import NOTE, open_loop_rows
from specbench.report.plots import Plot, svg
from specbench.report.recipe import COMMAND, config_yaml, made_with
from specbench.report.style import FAINT, INK


def render_html(summary: RunSummary, plots: Iterable[Plot]) -> str:
    """The page, plots inlined as SVG. Everything that comes from outside is escaped."""
    environment = Environment(
        loader=PackageLoader("specbench.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"figures": figures, "open_loop_rows": open_loop_rows, "open_loop_note": NOTE}
    return environment.get_template("report.html.j2").render(
        summary=summary,
        workloads=list(dict.fromkeys(c.workload for c in summary.cells)),
        currency=next((c.currency for c in summary.cells if c.currency), None),
        plots=[(plot, _inline(plot)) for plot in plots],
        command=COMMAND,
        config=config_yaml(summary),
        made_with=made_with(summary),
    )


def _inline(plot: Plot) -> Markup:
    """The plot as an element of the page: in the colours of its theme, with the caption for screen readers."""
    text = svg(plot).replace(INK, "var(--ink)").replace(FAINT, "var(--rule)")
    # HTML knows SVG's namespaces by itself.
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    return Markup(re.sub(r"^<svg ", f'<svg role="img" aria-label="{escape(plot.caption)}" ', text))
