"""One look for every plot: colour-blind safe, readable at half a page's width, themable inside a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Okabe and Ito's palette for colour-blind readers (2008), without black (the baseline's) and yellow (too light).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))

INK = "#1d2430"
FAINT = "#c3c9d2"
"""Colours of text and of rules. The HTML report replaces them by its theme's, so nothing else may use them."""

DIVERGING = "PuOr"
"""Brown-orange below 1, violet above: told apart with any colour vision."""

RC: dict[str, Any] = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "legend.fontsize": 9.5,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "legend.frameon": False,
    "svg.fonttype": "none",
    # Names from outside may hold dollar signs.
    "text.parse_math": False,
    "svg.hashsalt": "specbench",
}


@dataclass(frozen=True, slots=True)
class LineStyle:
    colour: str
    marker: str
    dash: Any


def line_styles(arms: Sequence[tuple[str, int]]) -> dict[tuple[str, int], LineStyle]:
    """A style per arm (method, gamma): colour tells methods apart, marker and dash gammas; the baseline is ink."""
    methods = [m for m in dict.fromkeys(method for method, _ in arms) if m != "none"]
    gammas = sorted({gamma for method, gamma in arms if method != "none"})
    styles = {("none", 0): LineStyle(INK, "x", ":")}
    for method, gamma in arms:
        if method != "none":
            i = gammas.index(gamma)
            colour = COLOURS[methods.index(method) % len(COLOURS)]
            styles[method, gamma] = LineStyle(colour, _MARKERS[i % len(_MARKERS)], _DASHES[i % len(_DASHES)])
    return styles
