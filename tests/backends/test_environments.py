"""Environments of engines: made step by step with real pip and real wheels (our own, toy ones), continued, adopted."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from specbench.backends import environments
from specbench.backends.environments import PARSER, Environment, Recipe, engine_python, find_python, install, installed
from specbench.errors import SpecbenchError

# The toy engine draws in a package that keeps it from starting, and asks for metadata that it does not bring.
ENGINE = """
from importlib import metadata
import sys
if any(d.metadata["Name"] == "toy-trouble" for d in metadata.distributions()):
    sys.exit("operator toy::nms does not exist")
assert metadata.version("toy") == "1.0+cpu"
"""
RECIPE = Recipe(
    *("toy", "cpu", "toy-engine=={version}", "1.0", "toy_engine"),
    disk_bytes=1,
    uninstall=("toy_trouble",),
    alias="toy",
    extras={"speed": ("--no-deps", "toy_extra==1.0")},
)


def write_wheel(folder: Path, name: str, module: str, requires: str = "") -> None:
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", module)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> Path:
    """A folder of wheels that pip looks in instead of an index, and a recipe that needs them."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    write_wheel(folder, "toy_engine", ENGINE, "Requires-Dist: toy-trouble\n")
    write_wheel(folder, "toy_trouble", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setitem(environments.RECIPES, ("toy", "cpu"), RECIPE)  # type: ignore[arg-type]
    return folder


def test_an_interrupted_installation_goes_on_and_a_whole_one_is_not_touched(wheels: Path) -> None:
    engine = wheels / "toy_engine-1.0-py3-none-any.whl"
    hidden = engine.rename(engine.with_suffix(".hidden"))
    with pytest.raises(SpecbenchError, match="pip finds no toy-engine"):
        install("toy", "cpu")
    assert installed("toy") == []
    hidden.rename(engine)

    said: list[str] = []
    environment = install("toy", "cpu", say=said.append)
    assert not any("virtual environment" in line for line in said), "the first attempt's environment was made again"
    assert any(line.startswith("Removing toy_trouble") for line in said)
    assert installed("toy") == [environment]
    assert engine_python("toy", "cpu") == environment.python

    said.clear()
    assert install("toy", "cpu", say=said.append) == environment
    assert said == [f"{environment.path} is there already."]


def test_an_extra_is_added_to_an_environment_that_is_there_already(wheels: Path) -> None:
    environment = install("toy", "cpu")
    write_wheel(wheels, "toy_extra", "")
    install("toy", "cpu", extras=("speed",))
    assert list(environment.path.glob("lib/*/site-packages/toy_extra.py"))
    with pytest.raises(SpecbenchError, match=r"no extra called 'looks'\. It has: speed"):
        install("toy", "cpu", extras=("looks",))


def test_a_recipe_may_put_other_packages_in_the_place_of_what_the_engine_asks_for(
    wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(wheels, "toy_parser", "import toy_extra", "Requires-Dist: toy-trouble\n")
    write_wheel(wheels, "toy_extra", "")
    recipe = Recipe("toy", PARSER, "toy-parser=={version}", "1.0", "toy_parser", disk_bytes=1, instead=("toy-extra",))
    monkeypatch.setitem(environments.RECIPES, ("toy", PARSER), recipe)  # type: ignore[arg-type]
    environment = install("toy", PARSER)
    assert not list(environment.path.glob("lib/*/site-packages/toy_trouble*"))
    assert not environment.runs
    for device in ("cpu", "cuda"):  # nothing can be started in it
        with pytest.raises(SpecbenchError, match="toy is not installed"):
            engine_python("toy", device)


def test_an_installation_that_there_is_not_is_not_advised() -> None:
    with pytest.raises(SpecbenchError, match=r"does not install sglang for --device cpu\. Take --device cuda"):
        engine_python("sglang", "cpu")


def test_an_engine_that_does_not_import_is_not_ready(wheels: Path) -> None:
    write_wheel(wheels, "toy_engine", "import no_such_module")
    with pytest.raises(SpecbenchError, match="could not import toy_engine: ModuleNotFoundError: No module named"):
        install("toy", "cpu")
    assert installed("toy") == []


def test_the_newest_version_is_used(own_cache: Path) -> None:
    for version in ("0.9.1", "0.32.0", "0.4.0"):
        folder = own_cache / "engines" / f"vllm-{version}-cpu"
        folder.mkdir(parents=True)
        (folder / environments.READY).touch()
    assert [e.version for e in installed("vllm")] == ["0.32.0", "0.9.1", "0.4.0"]
    newest = Environment("vllm", "cpu", "0.32.0", own_cache / "engines" / "vllm-0.32.0-cpu")
    assert engine_python("vllm", "cpu") == newest.python


@pytest.mark.parametrize(("device", "command"), [("cpu", "install vllm --cpu`"), ("cuda", "install vllm`")])
def test_a_missing_environment_names_the_command_that_makes_it(own_cache: Path, device: str, command: str) -> None:
    with pytest.raises(SpecbenchError, match=f"specbench backend {command}.*--python PATH or --container IMAGE"):
        engine_python("vllm", device)


def test_too_little_disk_is_said_before_anything_is_fetched(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe("vast", "cpu", "vast=={version}", "1.0", "vast", disk_bytes=1 << 60)
    monkeypatch.setitem(environments.RECIPES, ("vast", "cpu"), recipe)  # type: ignore[arg-type]
    with pytest.raises(SpecbenchError, match=r"takes about \d+ GiB .* Free some space, or set SPECBENCH_CACHE"):
        install("vast", "cpu")


def test_a_python_that_does_not_start_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "python3.12"
    broken.write_text("#!/bin/sh\necho 'python3.12: command not found' >&2; exit 127\n")
    broken.chmod(0o755)
    current = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if current in environments.PYTHON_VERSIONS:
        assert find_python([str(broken), sys.executable]) == Path(sys.executable)
    with pytest.raises(SpecbenchError, match=r"engines need Python 3\.11, 3\.12, 3\.13"):
        find_python([str(broken), "no-such-python"])


def test_what_cannot_be_installed_is_said() -> None:
    with pytest.raises(SpecbenchError, match="no recipe to install tgi for gpu"):
        install("tgi", "gpu")
