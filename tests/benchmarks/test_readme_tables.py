"""What README shows is what the committed result files hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_no_table_is_stale() -> None:
    script = ROOT / "benchmarks" / "readme_tables.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("name", "tables"), [("README.md", 1), ("docs/results.md", 5)])
def test_there_are_tables_and_every_marker_is_closed(name: str, tables: int) -> None:
    page = (ROOT / name).read_text("utf-8")
    opened = re.findall(r"<!-- table: ([\w-]+) -->", page)
    assert len(opened) >= tables
    assert page.count("<!-- /table -->") == len(opened)
