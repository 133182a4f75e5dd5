"""Makes `known_gate`, the builder of runs to be compared, and `known_run` below it importable."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / name) for name in ("gate", "analysis")]
