"""One row of a report: a cell with its repeats and replicates summed up. docs/columns.md explains every field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from specbench.analysis.marks import VOIDING, Mark, owes_gain_to_degenerate
from specbench.analysis.statistics import Basis
from specbench.decoder.policies import ADAPTIVE
from specbench.equivalence.greedy import Verdict
from specbench.schedule import PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """Field names are the keys of `--json` and the columns of cells.csv. None: not reported, or not applicable.

    Times are milliseconds here, as shown; shares are 0..1, but for those whose name ends in `percent`.
    """

    backend: str
    target: str
    workload: str
    method: str
    gamma: int
    schedule: str | None = None
    adaptive: str | None = None
    tree: str | None = None
    cached_requests: int | None = None
    as_deployed: bool
    again: bool = False
    drafter: str | None
    batch_size: int
    request_rate: float | None = None
    temperature: float
    status: Literal["ok", "failed", "predicted"]
    predicted: bool = False
    error: str | None = None
    marks: tuple[Mark, ...] = ()

    measurements: int = 0
    replicates: int = 0
    requests: int = 0
    failed_requests: int = 0
    degenerate_requests: int = 0
    truncated_requests: int = 0

    output_tokens_per_s: float | None = None
    run_output_tokens_per_s: float | None = None
    per_user_tokens_per_s: float | None = None
    speedup: float | None = None
    speedup_ci_low: float | None = None
    speedup_ci_high: float | None = None
    speedup_ci_basis: Basis | None = None
    speedup_sd_percent: float | None = None
    run_speedup: float | None = None
    speedup_without_degenerate: float | None = None

    mean_acceptance_length: float | None = None
    mean_acceptance_length_ci_low: float | None = None
    mean_acceptance_length_ci_high: float | None = None
    mean_acceptance_length_per_draft: float | None = None
    mean_acceptance_length_per_request: float | None = None
    draft_acceptance_rate: float | None = None
    draft_acceptance_rate_ci_low: float | None = None
    draft_acceptance_rate_ci_high: float | None = None
    alpha: float | None = None
    position_acceptance: tuple[float, ...] | None = None
    conditional_acceptance: tuple[float | None, ...] | None = None
    acceptance_histogram: tuple[int, ...] | None = None
    acceptance_by_category: Mapping[str, float | None] | None = None
    acceptance_by_output_position: Mapping[str, float] | None = None
    acceptance_by_context_length: Mapping[str, float] | None = None
    suspended_share: float | None = None
    acceptance_source: str | None = None
    counter_mean_acceptance_length: float | None = None
    counter_difference_percent: float | None = None
    stream_mean_acceptance_length: float | None = None

    ttft_ms_p50: float | None = None
    ttft_ms_p90: float | None = None
    ttft_ms_p95: float | None = None
    ttft_ms_p99: float | None = None
    tpot_ms_mean: float | None = None
    tpot_ms_p50: float | None = None
    tpot_ms_p90: float | None = None
    tpot_ms_p95: float | None = None
    tpot_ms_p99: float | None = None
    itl_ms_p50: float | None = None
    itl_ms_p90: float | None = None
    itl_ms_p95: float | None = None
    itl_ms_p99: float | None = None
    itl_chunk_ms_p50: float | None = None
    itl_chunk_ms_p99: float | None = None
    itl_burst_ms_p50: float | None = None
    itl_burst_ms_p99: float | None = None
    tokens_per_chunk: Mapping[int, int] | None = None
    e2e_ms_p50: float | None = None
    e2e_ms_p90: float | None = None
    e2e_ms_p95: float | None = None
    e2e_ms_p99: float | None = None

    offered_requests_per_s: float | None = None
    requests_per_s: float | None = None
    goodput_requests_per_s: float | None = None
    goodput_percent: float | None = None
    slo_met: bool | None = None
    latency_speedup: float | None = None
    latency_speedup_ci_low: float | None = None
    latency_speedup_ci_high: float | None = None
    send_lag_ms_p99: float | None = None

    currency: str | None = None
    cost_per_million_output_tokens: float | None = None
    saving_percent: float | None = None
    gpus_needed: int | None = None
    gpus_saved: int | None = None
    payback_months: float | None = None

    step_cost_ratio: float | None = None
    step_cost_draft: float | None = None
    step_cost_verify: float | None = None
    step_cost_basis: str | None = None
    alpha_break_even: float | None = None
    phase_percent: Mapping[str, float] | None = None
    step_ms: Mapping[str, float] | None = None
    verify_bandwidth_percent: float | None = None
    ready_draft_rate: float | None = None
    second_device_gain: float | None = None

    telemetry_source: str | None = None
    memory_bytes_peak: int | None = None
    utilization_percent_mean: float | None = None
    power_watts_mean: float | None = None
    joules_per_output_token: float | None = None
    sm_activity_percent_mean: float | None = None
    tensor_activity_percent_mean: float | None = None
    dram_activity_percent_mean: float | None = None
    sm_clock_mhz_mean: float | None = None
    temperature_celsius_peak: float | None = None
    throttled_percent: float | None = None
    client_cpu_percent: float | None = None
    other_cpu_percent: float | None = None
    kv_capacity_tokens: int | None = None
    kv_usage_peak_percent: float | None = None
    preemptions: int | None = None
    prefix_cache_hit_percent: float | None = None

    equivalence: Verdict = "NOT_CHECKED"
    equivalence_detail: str = ""
    equivalence_prompts: int = 0
    near_tie_requests: int = 0
    divergent_requests: int = 0
    unprobed_requests: int = 0

    @property
    def is_baseline(self) -> bool:
        """Whether others are measured against it."""
        return not self.is_speculative and not self.as_deployed and not self.again

    @property
    def is_speculative(self) -> bool:
        return self.method != "none"

    @property
    def has_one_gamma(self) -> bool:
        """Whether gamma is the same at every batch size and step."""
        return self.schedule is None and self.adaptive is None

    @property
    def policy(self) -> str | None:
        """What sets gamma, as `--gamma` takes it: `schedule:1=4+9=0` or `adaptive:threshold`; None where it stays."""
        if self.schedule is not None:
            return PREFIX + self.schedule
        return None if self.adaptive is None else ADAPTIVE + self.adaptive

    @property
    def is_open_loop(self) -> bool:
        """Whether requests came at a rate, so that throughput is the arrivals' and arms differ in latency."""
        return self.request_rate is not None

    @property
    def load(self) -> str:
        """Batch size, or requests per second with their unit: `8`, `2.5/s`."""
        return str(self.batch_size) if self.request_rate is None else f"{self.request_rate:g}/s"

    @property
    def load_in_words(self) -> str:
        """`batch size 8`, `2.5 requests/s`."""
        return f"batch size {self.batch_size}" if self.request_rate is None else f"{self.request_rate:g} requests/s"

    @property
    def label(self) -> str:
        """Method and gamma as people write them: `ngram γ4`."""
        if self.is_speculative:
            if not self.gamma:
                return f"{self.method} (γ not reported)"
            return f"{self.method} γ{self.gamma}" if self.has_one_gamma else self.method.replace("-", " ")
        return "none, as deployed" if self.as_deployed else "none, again" if self.again else "none"

    @property
    def owes_gain_to_degenerate(self) -> bool:
        """Whether it is faster than the baseline only while degenerate requests count."""
        return owes_gain_to_degenerate(self.speedup, self.speedup_without_degenerate)

    @property
    def is_void(self) -> bool:
        """Whether a mark says that its speedup cannot be believed."""
        return bool(VOIDING & {mark.code for mark in self.marks})

    @property
    def is_sound(self) -> bool:
        """Whether anything may rest on its figures: they can be believed, and outputs are plain decoding's."""
        return not self.is_void and self.equivalence != "DIVERGENT"

    @property
    def is_evidence(self) -> bool:
        """Whether a decision may rest on the cell's speedup: measured, with an interval, and not void."""
        return self.speedup_ci_low is not None and not self.is_void and not self.predicted

    @property
    def has_interval(self) -> bool:
        """Whether the speedup's interval says anything: of launches that differ wildly it spans orders of magnitude."""
        low, high = self.speedup_ci_low, self.speedup_ci_high
        return low is not None and high is not None and high <= 10 * low
