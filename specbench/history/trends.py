"""Trends: each cell's figures from run to run, on one kind of machine, and what changed between them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specbench.differences import differences
from specbench.errors import SpecbenchError
from specbench.history import database
from specbench.history.folder import Folder
from specbench.history.series import IDENTITY, Figure, Point, Series

USUAL = ("speedup", "latency_speedup")
"""Shown unless a user names others: ratios to the run's own plain decoding, which a slow day does not move."""

_READ = {name: f"coalesce({name}, false)" for name in ("as_deployed", "again")}
"""Reports of older versions do not have these columns."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which cells; an empty tuple lets all through. simulated: runs on no hardware, too"""

    workload: tuple[str, ...] = ()
    method: tuple[str, ...] = ()
    gamma: tuple[int, ...] = ()
    batch_size: tuple[int, ...] = ()
    simulated: bool = False

    def given(self) -> dict[str, list[Any]]:
        """By column, the values that are let through."""
        columns = ("workload", "method", "gamma", "batch_size")
        return {name: list(values) for name in columns if (values := getattr(self, name))}


@dataclass(frozen=True, slots=True)
class Trends:
    """metrics: those that were asked for, or of the usual ones those that are known
    simulated_runs: how many were left out
    incomplete: runs with fewer measurements than planned: name, measured, planned
    copies: runs left out because another run stands for them
    """

    metrics: tuple[str, ...]
    series: tuple[Series, ...]
    simulated_runs: int
    incomplete: tuple[tuple[str, int, int], ...]
    copies: tuple[tuple[str, str], ...] = ()


def trends(folder: Folder, selection: Selection, metrics: Sequence[str] = ()) -> Trends:
    """The series of the cells selected. Raises SpecbenchError for a metric that is none, or where nothing is left."""
    with database.connected(folder, ("cells",)) as connection:
        columns = _columns(connection)
        for metric in metrics:
            _refuse_unknown(metric, columns)
        asked = tuple(dict.fromkeys(metrics or USUAL))
        rows = _rows(connection, columns, selection, asked)
        made_with = _made_with(connection)
        incomplete = connection.execute(
            "SELECT run, measured, planned FROM runs WHERE measured < planned AND ($simulated OR NOT simulated) "
            "ORDER BY run",
            {"simulated": selection.simulated},
        ).fetchall()
        (simulated,) = connection.execute("SELECT count(*) FROM runs WHERE simulated").fetchall()[0]
        copies = tuple(database.copies(connection))
        there = {name: _values(connection, name) for name in selection.given()}
    series = _series(rows, asked, made_with)
    left_out = 0 if selection.simulated else int(simulated)
    if not series:
        raise SpecbenchError(_nothing(folder, selection, asked, there, left_out))
    known = {name for s in series for p in s.points for name in p.figures}
    shown = tuple(m for m in asked if m in known) if not metrics and known else asked
    return Trends(shown, series, left_out, tuple(incomplete), copies)


def _columns(connection: Any) -> dict[str, str]:
    return {name: kind for name, kind, *_ in connection.execute("DESCRIBE cells").fetchall()}


def _refuse_unknown(metric: str, columns: Mapping[str, str]) -> None:
    figures = [
        name
        for name, kind in columns.items()
        if kind in ("BIGINT", "DOUBLE") and name not in IDENTITY and not name.endswith(("_ci_low", "_ci_high"))
    ]
    if metric in figures:
        return
    near = difflib.get_close_matches(metric, figures, 3)
    hint = (
        f"Did you mean {', '.join(near)}?" if near else "Take one of the figures in docs/columns.md, such as speedup."
    )
    raise SpecbenchError(f"--metric: {metric} is no figure of a cell. {hint}")


def _rows(
    connection: Any, columns: Mapping[str, str], selection: Selection, metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Of the cells selected, oldest run first; figures under the names of their columns."""
    bounds = [name for m in metrics for end in ("low", "high") if (name := f"{m}_ci_{end}") in columns]
    names = [
        *(*IDENTITY, "run", "created_at", "specbench_version", "engine", "simulated", "status"),
        *(*metrics, *bounds),
    ]
    chosen = selection.given()
    conditions = [f"{name} IN (SELECT unnest(${name}))" for name in chosen]
    if not selection.simulated:
        conditions.append("NOT simulated")
    read = ", ".join(_READ.get(name, name) for name in names)
    found = connection.execute(
        f"SELECT {read}, [m.code FOR m IN marks] FROM cells WHERE {' AND '.join(conditions or ['true'])} "
        "ORDER BY created_at NULLS FIRST, run",
        chosen,
    )
    return [dict(zip([*names, "marks"], row, strict=True)) for row in found.fetchall()]


def _values(connection: Any, column: str) -> list[Any]:
    return [value for (value,) in connection.execute(f"SELECT DISTINCT {column} FROM cells ORDER BY 1").fetchall()]


def _made_with(connection: Any) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """What each run was made with, and under which conditions, by its name."""
    rows = connection.execute("SELECT run, made_with, conditions FROM runs").fetchall()
    return {run: (made or {}, conditions or {}) for run, made, conditions in rows}


def _series(
    rows: Sequence[Mapping[str, Any]],
    metrics: Sequence[str],
    made_with: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]],
) -> tuple[Series, ...]:
    groups: dict[tuple[Any, ...], list[Point]] = {}
    for row in rows:
        point = _point(row, metrics)
        if not point.figures and point.status == "ok":
            continue
        points = groups.setdefault(tuple(row[name] for name in IDENTITY), [])
        before = made_with[points[-1].run] if points else None
        points.append(_with_changes(point, row["method"], before, made_with[point.run]))
    found = [
        Series(**dict(zip(IDENTITY, identity, strict=True)), points=tuple(points))
        for identity, points in groups.items()
    ]
    return tuple(sorted(found, key=_position))


def _point(row: Mapping[str, Any], metrics: Sequence[str]) -> Point:
    plain = row["method"] == "none" and not row["as_deployed"] and not row["again"]
    return Point(
        run=row["run"],
        created_at=row["created_at"],
        specbench_version=row["specbench_version"],
        engine=row["engine"],
        simulated=row["simulated"],
        status=row["status"],
        marks=tuple(row["marks"] or ()),
        figures={
            m: Figure(row[m], row.get(f"{m}_ci_low"), row.get(f"{m}_ci_high"))
            for m in metrics
            # A baseline's speedup over itself is 1 by definition.
            if row[m] is not None and not (plain and m in USUAL)
        },
    )


def _with_changes(
    point: Point,
    method: str,
    before: tuple[Mapping[str, str], Mapping[str, str]] | None,
    now: tuple[Mapping[str, str], Mapping[str, str]],
) -> Point:
    if before is None:
        return point
    (made_before, conditions_before), (made, conditions) = before, now
    theirs = {name for name in (*made_before, *made) if name.startswith("drafter ") and name != f"drafter {method}"}
    changed = differences(made_before, made, {*made_before, *made} - theirs)
    # An option or a workload that only one of both runs knows is no difference.
    changed += differences(conditions_before, conditions, conditions_before.keys() & conditions.keys())
    return replace(point, changed=tuple(changed))


def _position(series: Series) -> tuple[Any, ...]:
    return (series.place, series.batch_size, series.request_rate or 0.0, series.method != "none", series.label)


def _nothing(
    folder: Folder, selection: Selection, metrics: Sequence[str], there: Mapping[str, Sequence[Any]], simulated: int
) -> str:
    """there: by column that was chosen from, the values that the runs hold"""
    options = [f"--{name.replace('_', '-')} {','.join(map(str, values))}" for name, values in selection.given().items()]
    what = f"no cell with {', '.join(options)}" if options else "no cell"
    held = "; ".join(f"{name.replace('_', ' ')} {', '.join(map(str, values))}" for name, values in there.items())
    hint = f" There are: {held}." if held else ""
    if simulated:
        hint += f" {simulated} simulated runs were left out: add --simulated."
    return f"{what} of the runs in {folder.path} has a {' or '.join(metrics)}.{hint}"
