"""The plot of `specbench plan`: what would change the decision."""

from __future__ import annotations

import math
import textwrap

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from specbench.errors import SpecbenchError
from specbench.planning.sizing.plan import Plan
from specbench.report.figure_file import WIDTH
from specbench.report.style import COLOURS, FAINT, INK, RC

_ROW, _FRAME = 0.27, 0.9
_LABEL = 26
_PLATE = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}


def draw_tornado(plan: Plan) -> Figure:
    """A bar per input: the monthly saving from one end of its plausible range to the other. Orange where speculation
    pays at one end and not at the other; a dotted line where it begins to pay.

    Raises SpecbenchError where no input moves the saving.
    """
    swings = [s for s in plan.swings if math.isfinite(s.width)]
    if not swings:
        raise SpecbenchError("there is nothing to plot: no input moves what speculation saves.")
    planned, currency = plan.sized.saving.per_month.value, plan.terms.currency
    with mpl.rc_context(RC):
        figure = Figure(figsize=(WIDTH, _FRAME + _ROW * len(swings)), layout="constrained")
        axes = figure.subplots()
        for i, s in enumerate(swings):
            low, high = sorted((s.saving_low, s.saving_high))
            axes.barh(i, high - low, left=low, height=0.55, color=COLOURS[1] if s.flips else COLOURS[0])
            falling = s.saving_low > s.saving_high
            left, right = (s.high, s.low) if falling else (s.low, s.high)
            for x, label, side, away in ((low, left, "right", -3), (high, right, "left", 3)):
                axes.annotate(
                    label,
                    (x, i),
                    (away, 0),
                    textcoords="offset points",
                    ha=side,
                    va="center",
                    fontsize=5,
                    color=INK,
                    bbox=_PLATE,
                )
        axes.axvline(planned, color=INK, linewidth=0.8)
        axes.axvline(plan.terms.needed_per_month, color=INK, linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(swings)), ["\n".join(textwrap.wrap(s.what, _LABEL)) for s in swings], fontsize=6)
        axes.set(ylim=(len(swings) - 0.4, -0.6), xlabel=f"saved per month, {currency}")
        axes.margins(x=0.3)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=False, axis="y")
        axes.grid(color=FAINT, axis="x")
        text = (
            f"{plan.sized.site.name}, {plan.known.arm[1]}. Line: as planned. Dotted: where it begins to pay. Orange: "
            "it pays at one end of the range and not at the other."
        )
        figure.supxlabel(textwrap.fill(text, 75), fontsize=5.5, color=INK, alpha=0.8)
    return figure
