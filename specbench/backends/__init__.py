"""Engine adapters, by name. A new one is a file here and a line in `_BACKENDS`."""

from __future__ import annotations

from importlib import import_module

from specbench.backends.base import Backend
from specbench.errors import SpecbenchError

_BACKENDS = {
    "reference": "specbench.backends.reference:ReferenceBackend",
    "vllm": "specbench.backends.vllm:VllmBackend",
    "sglang": "specbench.backends.sglang:SglangBackend",
    "tensorrt-llm": "specbench.backends.tensorrt_llm:TensorrtLlmBackend",
    "attach": "specbench.backends.attach.backend:AttachBackend",
    "simulated": "specbench.backends.simulated:SimulatedBackend",
}

NAMES = tuple(_BACKENDS)

UNTRIED = dict.fromkeys(("sglang", "tensorrt-llm"), "contract-tested, not yet run on a GPU")
"""Adapters that have not met their engine yet, and how that is said (docs/engines.md)."""


def get_backend(name: str) -> Backend:
    """The adapter of that name, imported on first use."""
    if name not in _BACKENDS:
        raise SpecbenchError(f"unknown backend {name!r}. Choose from: {', '.join(NAMES)}.")
    module, _, attribute = _BACKENDS[name].partition(":")
    backend: Backend = getattr(import_module(module), attribute)()
    return backend
