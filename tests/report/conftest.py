"""Makes `known_run`, the builder of measurements of known truth, importable; opens reports in a real browser."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chromium import Chromium

sys.path += [str(Path(__file__).parents[1] / "analysis"), str(Path(__file__).parent)]


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One browser for all tests of a process."""
    binaries = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if not all(binaries):
        pytest.skip("Chromium is not here (Debian: apt-get install chromium chromium-driver)")
    from chromium import Chromium

    browser = Chromium(*map(str, binaries), tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()
