"""Tables on stdout: drawn by rich for a person at a terminal, tab-separated lines for a pipe or a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows of `len(columns)` cells under a title. Plain: a line `# title: columns`, then one per row."""
    console = Console()
    if not console.is_terminal:
        typer.echo(f"# {title}" + (f": {', '.join(filter(None, columns))}" if any(columns) else ""))
        for row in rows:
            typer.echo("\t".join(map(str, row)))
        return
    table = Table(*columns, title=title, title_justify="left", show_header=any(columns))
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console.print(table)
