"""NVML (nvidia-ml-py) as questions that have an answer or None."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger(__name__)

_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
"""Which member of a field value's union holds it, by its type (nvmlValueType_t)."""


class Nvml:
    """The library between `nvmlInit` and `nvmlShutdown`; `nvml` is the module, with all its constants."""

    def __init__(self, module: Any) -> None:
        self.nvml = module

    def ask(self, question: str, *arguments: Any) -> Any:
        """The answer of a function of the library, by its name.

        None where it refuses (not supported by the GPU or an old driver, no permission, the GPU is lost), and where
        nvidia-ml-py is too old to know the question.
        """
        function = getattr(self.nvml, question, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except (self.nvml.NVMLError, self.nvml.NVMLLibraryMismatchError):  # the latter: older than the question
            return None

    def first(self, questions: Sequence[str], *arguments: Any) -> Any:
        """The first answer that is one: for functions that were renamed."""
        return next((answer for q in questions if (answer := self.ask(q, *arguments)) is not None), None)

    def fields(self, handle: Any, names: Sequence[str]) -> list[float | None]:
        """Several `NVML_FI_…` at once, each None where the device does not tell it."""
        values = self.ask("nvmlDeviceGetFieldValues", handle, [getattr(self.nvml, name) for name in names])
        return [None] * len(names) if values is None else [_field(value) for value in values]


def _field(value: Any) -> float | None:
    member = _MEMBERS.get(value.valueType)
    return None if value.nvmlReturn or member is None else float(getattr(value.value, member))


@contextmanager
def open_nvml() -> Iterator[Nvml | None]:
    """The library for the length of the context; None where it or the driver is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except ImportError:
        yield None
        return
    except pynvml.NVMLError as error:
        missing = isinstance(error, pynvml.NVMLError_LibraryNotFound | pynvml.NVMLError_DriverNotLoaded)
        logger.log(logging.DEBUG if missing else logging.WARNING, "GPUs are not sampled, no NVML: %s", error)
        yield None
        return
    try:
        yield Nvml(pynvml)
    finally:
        pynvml.nvmlShutdown()
