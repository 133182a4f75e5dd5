"""Makes `known_gate`, the builder of runs to be gated, and `known_run` below it importable."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "analysis")]
