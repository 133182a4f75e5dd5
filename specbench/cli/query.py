"""`specbench query`: SQL over a folder of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.history.query import Answer


def query(
    sql: str = typer.Argument(..., metavar="SQL", help="One SELECT, in DuckDB's SQL."),
    runs: Path = typer.Option(Path("reports"), metavar="DIR", help="Folder that the runs are in."),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
    csv_output: bool = typer.Option(False, "--csv", help="Print CSV; lists and mappings in it are JSON."),
) -> None:
    """Ask a folder of runs anything. Views: runs, cells, measurements, requests (docs/query.md has their columns).

    Runs are read and nothing is changed: a query can neither write a file, nor read another, nor reach the network.
    Runs that cannot be read are named on stderr, and the others answer.

    Example: specbench query "SELECT run, workload, method, gamma, speedup FROM cells WHERE batch_size = 1"

    Example: specbench query "DESCRIBE cells"

    Keys of --json: columns, a list of names; rows, a list of objects with them as keys; left_out, a list of sentences.
    """
    import csv
    import io
    import json

    from specbench.cli.folder import notes_on_copies, open_folder
    from specbench.cli.table import print_table
    from specbench.history.query import ask

    if json_output and csv_output:
        raise typer.BadParameter("choose one of --json and --csv.")
    with open_folder(runs) as folder:
        answer = ask(folder, sql)
    notes = notes_on_copies(answer.copies)
    if json_output:
        left_out = [*folder.problems, *notes]
        record = {"columns": answer.columns, "rows": list(answer.records()), "left_out": left_out}
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
    elif csv_output:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows([_cell(value, "") for value in row] for row in answer.rows)
        typer.echo(buffer.getvalue(), nl=False)
    else:
        print_table(f"{len(answer.rows)} rows", answer.columns, _shown(answer))


def _shown(answer: Answer) -> list[list[object]]:
    return [[_rounded(value) for value in row] for row in answer.rows]


def _rounded(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else _cell(value, "–")


def _cell(value: object, absent: str) -> object:
    import json

    if value is None:
        return absent
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
