"""Makes `known_folder`, the builder of folders of runs, and `known_run` below it importable."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "analysis")]
