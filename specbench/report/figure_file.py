"""Figures as files: PNG for Markdown and slides, SVG and PDF for papers."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.text import Text
from PIL import Image

from specbench.errors import SpecbenchError
from specbench.report.style import RC
from specbench.store.atomic import replacing

WIDTH = 3.3
"""Inches of a column in a paper of two, and half a slide: figures are drawn at that size, not shrunk to it."""

FORMATS = ("png", "svg", "pdf")
_DPI, _COLOURS = 220, 128
_OPTIONS: dict[str, dict[str, Any]] = {
    "png": {"dpi": _DPI, "facecolor": "white", "metadata": {"Software": None}},
    "svg": {"facecolor": "white", "metadata": dict.fromkeys(("Date", "Creator", "Format", "Type"))},
    "pdf": {"facecolor": "white", "metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
}
_FONTS = {"svg.fonttype": "path", "pdf.fonttype": 42}
"""Letters as they were drawn, also where the font is not installed; text that can be selected in a PDF."""


def plot_formats(names: Sequence[str]) -> tuple[str, ...]:
    """Raises SpecbenchError for one that is none of FORMATS."""
    if unknown := [name for name in names if name not in FORMATS]:
        raise SpecbenchError(f"--plots: {unknown[0]!r} is no format of a plot. Choose from: {', '.join(FORMATS)}.")
    return tuple(names)


def format_of(path: Path) -> str:
    """By the path's ending. Raises SpecbenchError for one that is none of FORMATS."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise SpecbenchError(f"{path}: a plot's file ends in .png, .svg or .pdf.")
    return kind


def save(figure: Figure, path: Path) -> None:
    """In the format of the path's ending. Raises SpecbenchError for an ending that is none of FORMATS."""
    kind = format_of(path)
    with replacing(path) as partial:
        partial.write_bytes(rendered(figure, kind))


def rendered(figure: Figure, kind: str) -> bytes:
    """The file's content: the same every time."""
    make_showable(figure)
    buffer = io.BytesIO()
    with mpl.rc_context({**RC, **_FONTS}):
        figure.savefig(buffer, format=kind, **_OPTIONS[kind])
    return _with_palette(buffer) if kind == "png" else buffer.getvalue()


def _with_palette(png: io.BytesIO) -> bytes:
    """A plot has few colours: with a palette it takes a third of the bytes."""
    buffer = io.BytesIO()
    with Image.open(png) as image:
        image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(
            buffer, "PNG", optimize=True, dpi=(_DPI, _DPI)
        )
    return buffer.getvalue()


def make_showable(figure: Figure) -> None:
    """Texts from outside, such as a scenario's description, without control characters and with � for what the font
    cannot show: matplotlib would warn of each.
    """
    font = get_font(findfont("DejaVu Sans"))
    for artist in figure.findobj(Text):
        if isinstance(artist, Text):
            shown = (c for c in artist.get_text() if c == "\n" or unicodedata.category(c) != "Cc")
            artist.set_text("".join(c if c == "\n" or font.get_char_index(ord(c)) else "\ufffd" for c in shown))
