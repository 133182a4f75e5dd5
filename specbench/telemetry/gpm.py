"""Activity of a GPU's parts from its performance counters (NVML's GPM, Hopper and later)."""

from __future__ import annotations

import math
from typing import Any

from specbench.telemetry.nvml import Nvml

_METRICS = {
    "sm_activity_percent": ("NVML_GPM_METRIC_SM_UTIL", 1),
    "tensor_activity_percent": ("NVML_GPM_METRIC_ANY_TENSOR_UTIL", 1),
    "dram_activity_percent": ("NVML_GPM_METRIC_DRAM_BW_UTIL", 1),
    "pcie_sent_bytes_per_s": ("NVML_GPM_METRIC_PCIE_TX_PER_SEC", 1 << 20),
    "pcie_received_bytes_per_s": ("NVML_GPM_METRIC_PCIE_RX_PER_SEC", 1 << 20),
}
"""Field of a sample -> NVML's metric, and what its unit is in ours."""


class Gpm:
    """Counters of one device, each reading against the one before it.

    gpu: handle of the whole chip · instance: the GPU instance of a MIG device, None for the whole chip
    """

    def __init__(self, nvml: Nvml, gpu: Any, instance: int | None = None) -> None:
        self._nvml, self._gpu, self._instance = nvml, gpu, instance
        self._samples: list[Any] = []
        self._has_earlier = False
        support = nvml.ask("nvmlGpmQueryDeviceSupport", gpu)
        if support is not None and support.isSupportedDevice:
            samples = [nvml.ask("nvmlGpmSampleAlloc") for _ in range(2)]
            self._samples = [sample for sample in samples if sample is not None]
        self._question = self._prepare() if len(self._samples) == 2 else None

    def _prepare(self) -> Any:
        nvml = self._nvml.nvml
        question = nvml.c_nvmlGpmMetricsGet_t()
        question.version, question.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(_METRICS)
        for metric, (name, _) in zip(question.metrics, _METRICS.values(), strict=False):
            metric.metricId = getattr(nvml, name)
        return question

    def read(self) -> dict[str, float]:
        """Means since the reading before, by field of a sample. What is not told is left out; at first, that is all."""
        question = self._question
        if question is None:
            return {}
        earlier, now = self._samples
        taken = (
            self._nvml.ask("nvmlGpmSampleGet", self._gpu, now)
            if self._instance is None
            else self._nvml.ask("nvmlGpmMigSampleGet", self._gpu, self._instance, now)
        )
        if taken is None:
            return {}
        had_earlier, self._has_earlier = self._has_earlier, True
        self._samples = [now, earlier]
        if not had_earlier:
            return {}
        question.sample1, question.sample2 = earlier, now
        if self._nvml.ask("nvmlGpmMetricsGet", question) is None:
            return {}
        return {
            field: metric.value * unit
            for (field, (_, unit)), metric in zip(_METRICS.items(), question.metrics, strict=False)
            if not metric.nvmlReturn and math.isfinite(metric.value)
        }

    def close(self) -> None:
        """Give the counters' memory back."""
        for sample in self._samples:
            self._nvml.ask("nvmlGpmSampleFree", sample)
        self._samples, self._question = [], None
