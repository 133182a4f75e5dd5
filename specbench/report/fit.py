"""The plot of `specbench fit`: predicted against measured, and what is left over."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from specbench.errors import SpecbenchError
from specbench.planning.prediction import Calibrated, HeldOut
from specbench.report.figure_file import WIDTH
from specbench.report.style import INK, RC, line_styles

_HEIGHTS = (2.6, 1.6)


def draw_fit(found: Calibrated, run: str) -> Figure:
    """Above: each cell as predicted without it against as measured. Below: by batch size, how far off in percent, with
    its interval.

    Raises SpecbenchError where there are too few cells to hold one out.
    """
    if not found.held_out:
        raise SpecbenchError(f"there is nothing to plot: {run} has too few cells to hold one out.")
    groups: dict[tuple[str, int], list[HeldOut]] = {}
    for h in found.held_out:
        groups.setdefault((h.observation.point.method, h.observation.point.gamma), []).append(h)
    styles = line_styles(list(groups))
    with mpl.rc_context(RC):
        figure = Figure(figsize=(WIDTH, sum(_HEIGHTS) + 0.3), layout="constrained")
        above, below = figure.subplots(2, 1, gridspec_kw={"height_ratios": _HEIGHTS})
        for i, (arm, cells) in enumerate(groups.items()):
            aside = 1.06 ** (i - (len(groups) - 1) / 2)
            label = "none" if arm[1] == 0 else f"{arm[0]} γ{arm[1]}"
            look: dict[str, Any] = {"color": styles[arm].colour, "marker": styles[arm].marker, "linestyle": ""}
            above.plot(
                [h.observation.tokens_per_second for h in cells], [h.predicted for h in cells], label=label, **look
            )
            below.errorbar(
                [h.observation.point.batch_size * aside for h in cells],
                [-100 * h.error for h in cells],
                yerr=[100 * found.factor * h.spread for h in cells],
                elinewidth=0.8,
                **look,
            )
        rates = [rate for h in found.held_out for rate in (h.predicted, h.observation.tokens_per_second)]
        ends = [min(rates) * 0.9, max(rates) * 1.1]
        above.plot(ends, ends, color=INK, linewidth=0.8, linestyle=":")
        above.set(xscale="log", yscale="log", xlabel="measured tokens/s", ylabel="predicted without the cell")
        for axis in (above.xaxis, above.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        below.axhline(0, color=INK, linewidth=0.8, linestyle=":")
        below.set(xlabel="batch size", ylabel="predicted over measured, %")
        sizes = sorted({h.observation.point.batch_size for h in found.held_out})
        below.set_xscale("log")
        below.set_xticks(sizes, [str(size) for size in sizes])
        below.minorticks_off()
        figure.legend(*above.get_legend_handles_labels(), loc="outside upper left", ncols=3, columnspacing=1.2)
        figure.supxlabel(run, fontsize=5.5, color=INK, alpha=0.8)
    return figure
