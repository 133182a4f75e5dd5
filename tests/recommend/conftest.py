"""Lets the tests of this folder import known_grid and virtual_engine, and those the runs of tests/analysis."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "analysis")]
