"""Who only reads runs needs no network."""

from __future__ import annotations

import subprocess
import sys


def test_analysis_loads_no_client() -> None:
    code = "import sys, specbench.analysis.summary, specbench.store.run\nprint('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
