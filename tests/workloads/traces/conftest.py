"""Lets the tests of this folder import `known_run`, measurements of known truth."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "analysis"))
