from __future__ import annotations

from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.paths import expand_home


def test_a_home_is_found_and_other_paths_are_left_alone():
    assert expand_home("~/x") == Path.home() / "x"
    assert expand_home(Path("a/~")) == Path("a/~")


def test_the_home_of_nobody_is_a_sentence():
    with pytest.raises(SpecbenchError, match="~nouser/x: there is no home directory ~nouser here"):
        expand_home("~nouser/x")
