"""Lets the tests of this folder import what stands beside them, and `known_run`, measurements of known truth."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "analysis")]
