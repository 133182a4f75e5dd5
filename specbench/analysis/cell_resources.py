"""What a cell took of the machine: memory, power, activity, processor time, and how its KV cache fared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specbench.analysis.arm import Arm, LaunchSettings
from specbench.analysis.resources import Resources, resources
from specbench.analysis.statistics import mean_of_known
from specbench.analysis.throttling import throttled_shares
from specbench.store.measurement import Measurement


def resource_figures(arm: Arm, settings: Mapping[str, LaunchSettings]) -> dict[str, Any]:
    """By column. settings: what the servers said of theirs, by launch"""
    used = [resources(m.telemetry) for m in arm.ok]
    memory = [r.memory_bytes_peak for r in used if r.memory_bytes_peak is not None]
    capacities = [
        s.kv_capacity_tokens for m in arm.ok if (s := settings.get(m.launch)) and s.kv_capacity_tokens is not None
    ]
    return {
        "telemetry_source": next((r.source for r in used if r.source is not None), None),
        "memory_bytes_peak": max(memory, default=None),
        "utilization_percent_mean": mean_of_known(r.utilization_percent_mean for r in used),
        "power_watts_mean": mean_of_known(r.power_watts_mean for r in used),
        "joules_per_output_token": _joules_per_output_token(arm.ok, used),
        "sm_activity_percent_mean": mean_of_known(r.sm_activity_percent_mean for r in used),
        "tensor_activity_percent_mean": mean_of_known(r.tensor_activity_percent_mean for r in used),
        "dram_activity_percent_mean": mean_of_known(r.dram_activity_percent_mean for r in used),
        "sm_clock_mhz_mean": mean_of_known(r.sm_clock_mhz_mean for r in used),
        "temperature_celsius_peak": max(
            (r.temperature_celsius_peak for r in used if r.temperature_celsius_peak is not None), default=None
        ),
        "throttled_percent": None if (slowed := throttled_shares(arm.ok)) is None else slowed["any"] * 100,
        "client_cpu_percent": mean_of_known(m.client_cpu_percent for m in arm.ok),
        "other_cpu_percent": mean_of_known(m.other_cpu_percent for m in arm.ok),
        "kv_capacity_tokens": min(capacities, default=None),
        **cache_figures(arm),
    }


def _joules_per_output_token(measurements: Sequence[Measurement], used: Sequence[Resources]) -> float | None:
    """Over whole runs, ramp and drain included, as the counters of energy are."""
    known = [(m, r.joules_per_second) for m, r in zip(measurements, used, strict=True) if r.joules_per_second]
    tokens = sum(t.output_tokens for m, _ in known for t in m.traces)
    return sum(watts * (m.finished - m.started) for m, watts in known) / tokens if tokens else None


def cache_figures(arm: Arm) -> dict[str, Any]:
    """How the engine's KV cache fared."""
    counters = [m.counters for m in arm.ok if m.counters]
    usage = [c.kv_usage_peak * 100 for c in counters if c.kv_usage_peak is not None]
    preemptions = [c.preemptions for c in counters if c.preemptions is not None]
    looked_up = sum(c.prefix_cache_queries or 0 for c in counters)
    hits = sum(c.prefix_cache_hits or 0 for c in counters)
    return {
        "kv_usage_peak_percent": max(usage, default=None),
        "preemptions": sum(preemptions) if preemptions else None,
        "prefix_cache_hit_percent": hits / looked_up * 100 if looked_up else None,
    }
