"""One look for every plot: colour-blind safe, readable at half a page's width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Okabe and Ito's palette for colour-blind readers (2008), without black (the baseline's) and yellow (too light).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
PAGE_COLOURS = (
    ("#0072B2", "#4da3dc"), ("#D55E00", "#f5894a"), ("#009E73", "#35b58b"),
    ("#b8609a", "#e09cc3"), ("#2f8fcb", "#8ccdf2"), ("#b27a00", "#f0b843"),
)  # fmt: skip
"""The same hues for a light and a dark page, 3 to 1 against its ground at least (WCAG 1.4.11)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))

INK = "#1d2430"
FAINT = "#c3c9d2"
"""Colours of text and of rules."""

DIVERGING = "PuOr"
"""Brown-orange below 1, violet above: told apart with any colour vision."""

RC: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
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
    "grid.linewidth": 0.4,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.linewidth": 0.5,
    "axes.axisbelow": True,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.8,
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
    """A style per arm (method, gamma): colour tells methods apart, dash gammas, and each arm has its own marker, so
    that no colour is needed; the baseline is ink.
    """
    methods = [m for m in dict.fromkeys(method for method, _ in arms) if m != "none"]
    gammas = sorted({gamma for method, gamma in arms if method != "none"})
    styles = {("none", 0): LineStyle(INK, "x", ":")}
    for i, (method, gamma) in enumerate(arm for arm in arms if arm[0] != "none"):
        colour = COLOURS[methods.index(method) % len(COLOURS)]
        dash = _DASHES[gammas.index(gamma) % len(_DASHES)]
        styles[method, gamma] = LineStyle(colour, MARKERS[i % len(MARKERS)], dash)
    return styles
