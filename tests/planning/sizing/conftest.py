"""Lets the tests of this folder import what stands beside them, and what stands above."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
