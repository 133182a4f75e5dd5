"""The wire formats by engine. A new one is a file here and a line in `FORMATS`."""

from __future__ import annotations

from collections.abc import Mapping

from specbench.simulated.formats.base import EngineFormat
from specbench.simulated.formats.sglang import SglangFormat
from specbench.simulated.formats.tensorrt_llm import TensorrtLlmFormat
from specbench.simulated.formats.vllm import VllmFormat

FORMATS: Mapping[str, type[EngineFormat]] = {
    "vllm": VllmFormat,
    "sglang": SglangFormat,
    "tensorrt_llm": TensorrtLlmFormat,
}
