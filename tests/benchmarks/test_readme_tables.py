"""What README shows is what the committed result files hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_table_is_stale() -> None:
    script = ROOT / "benchmarks" / "readme_tables.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_there_are_tables_and_every_marker_is_closed() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    opened = re.findall(r"<!-- table: ([\w-]+) -->", page)
    assert len(opened) >= 4
    assert page.count("<!-- /table -->") == len(opened)
