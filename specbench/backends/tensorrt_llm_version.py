"""Which TensorRT-LLM a launch is for. It has to be known before the start: 1.3 reads another configuration than 1.2."""

from __future__ import annotations

import logging
import re
from enum import Enum
from pathlib import Path

from specbench.backends.base import EngineOptions
from specbench.errors import SpecbenchError

logger = logging.getLogger(__name__)

KNOWN = ("1.2", "1.3", "1.4")
"""Versions whose configuration was read from their source (1.2.1, release candidates of 1.3 and 1.4)."""


class Grammar(Enum):
    """How the configuration is written.

    UNTIL_1_2: `DraftTarget`, `Eagle`; a schedule gives the smallest batch of each draft length
    SINCE_1_3: `Draft_Target`, `Eagle3`; a schedule gives the largest batch of each
    """

    UNTIL_1_2 = "1.2 and before"
    SINCE_1_3 = "1.3 and later"

    @classmethod
    def of(cls, version: str) -> Grammar:
        """That of a version. One that nobody has read is taken for the nearest, with a warning."""
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers is None:
            raise SpecbenchError(f"--engine-version {version}: expected a version of TensorRT-LLM, such as 1.2.1.")
        if not is_known(version):
            logger.warning(
                "TensorRT-LLM %s is not among the versions whose configuration is known (%s)", version, ", ".join(KNOWN)
            )
        return cls.UNTIL_1_2 if (int(numbers[1]), int(numbers[2])) <= (1, 2) else cls.SINCE_1_3


def is_known(version: str) -> bool:
    numbers = re.match(r"\d+\.\d+", version)
    return numbers is not None and numbers[0] in KNOWN


def engine_version(options: EngineOptions) -> str:
    """As given, else by the image's tag, else by what is installed beside the interpreter. Raises SpecbenchError."""
    found = options.engine_version or (
        _of_tag(options.container.image)
        if options.container is not None
        else _of_environment(options.python)
        if options.python is not None
        else None
    )
    if found is None:
        raise SpecbenchError(
            "TensorRT-LLM 1.3 reads another configuration than 1.2, and nothing tells which this is: name an image by "
            "its version (--container …/tensorrt-llm/release:1.2.1) or an environment that has it (--python PATH), or "
            "say it: --engine-version 1.2.1."
        )
    return found


def _of_tag(image: str) -> str | None:
    tag = re.search(r":v?(\d+\.\d+[^/:@]*)(@[^/]*)?$", image)
    return tag[1] if tag else None


def _of_environment(python: Path) -> str | None:
    """The version in the name of the distribution's metadata: asking the engine itself takes a GPU."""
    found = python.parent.parent.glob("lib/python3*/site-packages/tensorrt_llm-*.dist-info")
    return next((path.name.removesuffix(".dist-info").partition("-")[2] for path in found), None)
