"""A plan that is kept with the run behind it, for the run's report to show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.store.run import write_json

KEPT = "plan.json"

Section = Mapping[str, Any]
"""What the templates show, as texts and rows of texts."""


def keep(section: Section, run: Path) -> None:
    """Lets the run's report show the plan from now on."""
    write_json(run / KEPT, dict(section))


def kept(run: Path) -> Section | None:
    """Raises SpecbenchError for a file that no plan wrote."""
    path = run / KEPT
    if not path.exists():
        return None
    try:
        section = json.loads(path.read_text(encoding="utf-8"))
        section["headline"], section["tables"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpecbenchError(f"{path}: no plan of specbench ({error}). Delete it, or plan again.") from error
    found: Section = section
    return found
