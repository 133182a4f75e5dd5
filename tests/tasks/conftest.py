"""Makes `known_run`, the builder of measurements of known truth, importable."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
