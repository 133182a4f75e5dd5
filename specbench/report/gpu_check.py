"""What `make gpu-check` found, as text."""

from __future__ import annotations

from pathlib import Path

from specbench.decoder.gpu_check.show import lines, read
from specbench.errors import SpecbenchError


def gpu_check_text(path: Path) -> str:
    """Checks and tables of a result. Raises SpecbenchError for a file of something else."""
    try:
        return "\n".join(lines(read(path)))
    except ValueError as error:
        raise SpecbenchError(f"{error} A run is a directory.") from None
