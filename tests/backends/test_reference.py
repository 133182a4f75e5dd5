"""The reference decoder's kernels are asked for by name, and nothing else of its command line is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.backends.base import EngineOptions, Launch
from specbench.backends.reference import ReferenceBackend
from specbench.errors import SpecbenchError


def argv(*arguments: str) -> tuple[str, ...]:
    return ReferenceBackend().command(Launch(Path("/t"), "t", options=EngineOptions(engine_args=arguments))).argv


@pytest.mark.parametrize("arguments", [("--kernels=auto",), ("--kernels", "off"), ("--kernels=auto", "--lagged=auto")])
def test_kernels_are_passed_on_where_they_are_asked_for(arguments: tuple[str, ...]) -> None:
    assert argv(*arguments) == (*argv(), *arguments)
    assert not any(flag in " ".join(argv()) for flag in ("--kernels", "--lagged"))


@pytest.mark.parametrize(
    "arguments", [("--verification", "typical"), ("--kernels",), ("--kernels=auto", "--port=1"), ("--lagged=on",)]
)
def test_other_arguments_are_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SpecbenchError, match=r"--kernels=off or --kernels=auto .* no other argument; got '--"):
        argv(*arguments)


@pytest.mark.parametrize(("name", "device"), [("int3", "cpu"), ("fp8", "cpu"), ("int8", "cuda")])
def test_a_quantization_that_it_has_not_is_refused_before_a_start(name: str, device: str) -> None:
    launch = Launch(Path("/t"), "t", device=device, options=EngineOptions(quantization=name))
    with pytest.raises(SpecbenchError, match="int8 or int4, on a CPU"):
        ReferenceBackend().command(launch)
