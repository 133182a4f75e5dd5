"""docs/engines.md says of every engine and method what the adapters do."""

from __future__ import annotations

import re
from pathlib import Path

from specbench.backends import get_backend
from specbench.speculation import METHODS

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


def test_a_cell_is_empty_exactly_where_the_adapter_refuses_the_method() -> None:
    text = PAGE.read_text(encoding="utf-8")
    head, _, *rows = re.findall(r"(?m)^\|.*\|$", text[text.index("| method |") :].partition("\n\n")[0])
    engines = re.findall(r"`([\w-]+)`", head)
    cells_of = ([cell.strip(" `") for cell in row.strip("|").split("|")] for row in rows)
    matrix = {method: cells for method, *cells in cells_of}
    assert tuple(matrix) == METHODS
    for place, engine in enumerate(engines):
        runs = {method for method, cells in matrix.items() if cells[place] != "–"}
        assert runs == set(get_backend(engine).methods), engine
    assert {cell for cells in matrix.values() for cell in cells} <= {"run here", "run on a GPU", "contract-tested", "–"}
