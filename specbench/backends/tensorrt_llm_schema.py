"""What a TensorRT-LLM configuration may hold, by grammar: a mistake is found here, before minutes of loading.

Read from the engine's source: `llmapi/llm_args.py` of 1.2.1 and of release candidates of 1.3 and 1.4, where names came
and went; the grammar of 1.3 takes what any of them took. Where the engine is installed, `specbench doctor` holds what
specbench writes against the engine's own classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator, model_validator

from specbench.backends.tensorrt_llm_version import Grammar
from specbench.errors import SpecbenchError


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Drafting(_Part):
    """speculative_config, whatever the method. The drafter goes by either of two names."""

    max_draft_len: PositiveInt
    max_total_draft_tokens: PositiveInt | None = None
    speculative_model: str | None = None
    speculative_model_dir: str | None = None
    load_format: str | None = None
    max_concurrency: PositiveInt | None = None
    draft_len_schedule: dict[int, int] | None = None
    allow_advanced_sampling: bool = False

    needs_drafter: ClassVar[bool] = False

    @field_validator("draft_len_schedule")
    @classmethod
    def _goes_up(cls, schedule: dict[int, int] | None) -> dict[int, int] | None:
        if schedule is not None and (not schedule or min(schedule) < 1 or min(schedule.values()) < 0):
            raise ValueError("a schedule has batch sizes from 1 on, and draft lengths from 0 on")
        return schedule

    @model_validator(mode="after")
    def _has_its_drafter(self) -> _Drafting:
        if self.needs_drafter and not (self.speculative_model or self.speculative_model_dir):
            raise ValueError("the drafter is missing: speculative_model_dir")
        return self


class _Until12(_Drafting):
    acceptance_window: int | None = Field(None, ge=0)
    acceptance_length_threshold: float | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _schedule_gives_the_smallest_batches(self) -> _Until12:
        schedule = self.draft_len_schedule
        if schedule is not None and schedule.get(1) != self.max_draft_len:
            raise ValueError(
                "until 1.2 draft_len_schedule gives the smallest batch of each draft length, and must have "
                f"1: {self.max_draft_len} (max_draft_len)"
            )
        return self


class _Since13(_Drafting):
    use_rejection_sampling: bool = False
    advanced_sampling_mode: str | None = None
    enable_penalty: bool = False
    acceptance_window: int | None = Field(None, ge=0)
    acceptance_length_threshold: float | None = Field(None, ge=0)
    acceptance_rate_window_size: int | None = Field(None, ge=0)
    acceptance_rate_threshold: float | None = Field(None, ge=0, le=1)
    moe_backend: str | None = None
    moe_tactic: str | None = None
    spec_dec_variant: PositiveInt | None = None
    sa_config: Mapping[str, Any] | None = None

    @model_validator(mode="after")
    def _schedule_gives_the_largest_batches(self) -> _Since13:
        schedule = self.draft_len_schedule
        if schedule is None:
            return self
        if schedule[max(schedule)] == 0:
            raise ValueError(
                "since 1.3 draft_len_schedule gives the largest batch of each draft length, and above the last there "
                "is none: a 0 at the end is how it was written until 1.2"
            )
        if schedule[min(schedule)] != self.max_draft_len:
            raise ValueError(f"draft_len_schedule must begin with max_draft_len, {self.max_draft_len}")
        return self


class _Eagle3(_Part):
    eagle_choices: list[list[int]] | str | None = None
    greedy_sampling: bool | None = None
    posterior_threshold: float | None = None
    use_dynamic_tree: bool | None = None
    dynamic_tree_max_top_k: PositiveInt | None = Field(None, alias="dynamic_tree_max_topK")
    num_eagle_layers: PositiveInt | None = None
    max_non_leaves_per_layer: PositiveInt | None = None
    eagle3_one_model: bool | None = None
    eagle3_layers_to_capture: list[int] | None = None
    eagle3_model_arch: Literal["llama3", "mistral_large3"] | None = None

    needs_drafter: ClassVar[bool] = True


class _NGram(_Part):
    decoding_type: Literal["NGram"]
    max_matching_ngram_size: PositiveInt
    is_keep_all: bool = True
    is_use_oldest: bool = True
    is_public_pool: bool = True


class _Mtp(_Part):
    decoding_type: Literal["MTP"]
    num_nextn_predict_layers: PositiveInt | None = None
    use_relaxed_acceptance_for_thinking: bool = False
    relaxed_topk: PositiveInt = 1
    relaxed_delta: float = Field(0.0, ge=0)
    use_mtp_vanilla: bool = False
    mtp_eagle_one_model: bool = True
    begin_thinking_phase_token: int | None = None
    end_thinking_phase_token: int | None = None


class _Suffix(_Part):
    """A suffix automaton over the request's own tokens, matched on the GPU."""

    decoding_type: Literal["SA"]
    max_matching_ngram_size: int = -1
    enable_global_pool: bool = False
    global_pool_size: PositiveInt | None = None


class DraftTargetUntil12(_Until12):
    decoding_type: Literal["DraftTarget"]
    needs_drafter: ClassVar[bool] = True


class EagleUntil12(_Eagle3, _Until12):
    decoding_type: Literal["Eagle"]


class NGramUntil12(_NGram, _Until12): ...


class MtpUntil12(_Mtp, _Until12): ...


class DraftTargetSince13(_Since13):
    decoding_type: Literal["Draft_Target"]
    needs_drafter: ClassVar[bool] = True


class Eagle3Since13(_Eagle3, _Since13):
    decoding_type: Literal["Eagle3"]


class NGramSince13(_NGram, _Since13): ...


class MtpSince13(_Mtp, _Since13): ...


class SuffixSince13(_Suffix, _Since13): ...


SpeculativeUntil12: TypeAlias = Annotated[
    DraftTargetUntil12 | EagleUntil12 | NGramUntil12 | MtpUntil12, Field(discriminator="decoding_type")
]
SpeculativeSince13: TypeAlias = Annotated[
    DraftTargetSince13 | Eagle3Since13 | NGramSince13 | MtpSince13 | SuffixSince13, Field(discriminator="decoding_type")
]


class KvCache(_Part):
    enable_block_reuse: bool | None = None
    free_gpu_memory_fraction: float | None = Field(None, ge=0, le=1)
    max_gpu_total_bytes: int | None = Field(None, ge=0)
    max_tokens: PositiveInt | None = None
    tokens_per_block: PositiveInt | None = None
    dtype: str | None = None
    max_attention_window: list[int] | None = None
    sink_token_length: int | None = None
    host_cache_size: int | None = None
    enable_partial_reuse: bool | None = None
    copy_on_partial_reuse: bool | None = None
    cross_kv_cache_fraction: float | None = None
    secondary_offload_min_priority: int | None = None
    event_buffer_max_size: int | None = None
    attention_dp_events_gather_period_ms: int | None = None
    onboard_blocks: bool | None = None
    use_uvm: bool | None = None
    mamba_ssm_cache_dtype: str | None = None


class KvCacheSince13(KvCache):
    use_kv_cache_manager_v2: bool | str | None = None
    mamba_ssm_stochastic_rounding: bool | None = None
    mamba_ssm_philox_rounds: PositiveInt | None = None
    mamba_state_cache_interval: int | None = None
    mamba_state_config: Mapping[str, Any] | None = None
    iteration_stats_interval: PositiveInt | None = None
    disk_cache_size: int | None = None
    disk_cache_path: str | None = None
    block_reuse_policy: str | None = None
    max_util_for_resume: float | None = None
    enable_swa_scratch_reuse: bool | None = None
    kv_events_config: Mapping[str, Any] | None = None


class CudaGraphs(_Part):
    enable_padding: bool = False
    max_batch_size: int | None = Field(None, ge=0)
    batch_sizes: list[int] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> CudaGraphs:
        if self.batch_sizes and self.max_batch_size:
            raise ValueError("give batch_sizes or max_batch_size, not both")
        return self


class _Configuration(BaseModel):
    """A whole file. Settings that specbench neither writes nor reads are known by name alone (`others`)."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)

    dtype: Literal["auto", "float16", "bfloat16", "float32"] | None = None
    enable_iter_perf_stats: bool | None = None
    disable_overlap_scheduler: bool | None = None
    cuda_graph_config: CudaGraphs | None = None

    others: ClassVar[frozenset[str]] = frozenset(
        {
            *("tokenizer", "tokenizer_mode", "custom_tokenizer", "skip_tokenizer_init", "trust_remote_code"),
            *("revision", "tokenizer_revision", "model_kwargs", "pipeline_parallel_size", "context_parallel_size"),
            *("gpus_per_node", "moe_cluster_parallel_size", "moe_tensor_parallel_size", "moe_expert_parallel_size"),
            *("enable_attention_dp", "enable_lm_head_tp_in_adp", "pp_partition", "cp_config", "load_format"),
            *("enable_lora", "lora_config", "enable_chunked_prefill", "guided_decoding_backend", "peft_cache_config"),
            *("iter_stats_max_iterations", "request_stats_max_iterations", "scheduler_config", "max_num_tokens"),
            *("cache_transceiver_config", "sparse_attention_config", "max_input_len", "max_beam_width"),
            *("gather_generation_logits", "num_postprocess_workers", "postprocess_tokenizer_dir", "reasoning_parser"),
            *("otlp_traces_endpoint", "perf_metrics_max_requests", "orchestrator_type", "env_overrides"),
            *("garbage_collection_gen0_threshold", "attention_dp_config", "moe_config", "attn_backend"),
            *("sampler_type", "enable_iter_req_stats", "print_iter_log", "batch_wait_timeout_ms"),
            *("batch_wait_timeout_iters", "batch_wait_max_tokens_ratio", "torch_compile_config", "enable_autotuner"),
            *("enable_layerwise_nvtx_marker", "enable_min_latency", "stream_interval", "force_dynamic_quantization"),
            *("allreduce_strategy", "checkpoint_format", "kv_connector_config", "mm_encoder_only"),
            *("ray_worker_extension_cls", "fail_fast_on_attention_window_too_large", "enable_sleep"),
            *("disable_flashinfer_sampling", "use_cute_dsl_blockscaling_mm", "use_cute_dsl_blockscaling_bmm"),
            *("max_stats_len", "nvfp4_gemm_config", "layer_wise_benchmarks_config", "sampler_force_async_worker"),
        }
    )

    @model_validator(mode="after")
    def _knows_the_others(self) -> _Configuration:
        if unknown := sorted(set(self.model_extra or {}) - self.others):
            raise ValueError(f"{unknown[0]} is no setting of it")
        return self


class ConfigurationUntil12(_Configuration):
    kv_cache_config: KvCache | None = None
    speculative_config: SpeculativeUntil12 | None = None


class ConfigurationSince13(_Configuration):
    kv_cache_config: KvCacheSince13 | None = None
    speculative_config: SpeculativeSince13 | None = None

    others: ClassVar[frozenset[str]] = _Configuration.others | {
        *("telemetry_config", "prometheus_metrics_config", "multimodal_config", "mx_config", "gms_config"),
        *("dwdp_config", "reorder_policy_config", "post_processor_hook", "encode_only", "enable_energy_metrics"),
        *("enable_early_first_token_response", "enable_low_latency_host_dispatch", "enable_resource_governor"),
        *("num_serve_frontends", "ray_placement_config", "disable_mm_encoder", "enable_speculative_beam_history_d2h"),
        *("encoder_max_num_items", "encoder_max_num_tokens", "speculative_model_kwargs"),
    }


_MODELS: Mapping[Grammar, type[_Configuration]] = {
    Grammar.UNTIL_1_2: ConfigurationUntil12,
    Grammar.SINCE_1_3: ConfigurationSince13,
}


def check_configuration(settings: Mapping[str, Any], grammar: Grammar) -> None:
    """Raises SpecbenchError, one sentence on the first mistake."""
    try:
        _MODELS[grammar].model_validate(settings)
    except ValidationError as error:
        raise SpecbenchError(f"TensorRT-LLM {grammar.value}: {_sentence(error)}.") from error


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    # The tag of a discriminated union is a part of the place, and none of the setting's name.
    place = [str(part) for part in first["loc"] if not str(part)[:1].isupper()]
    if first["type"] == "extra_forbidden":
        return f"{'.'.join(place)} is no setting of it"
    if first["type"] == "missing":
        return f"{'.'.join(place)} is missing"
    reason = first["msg"].removeprefix("Value error, ")
    where = f"{'.'.join(place)}: " if place else ""
    return f"{where}{reason[0].lower()}{reason[1:]}".rstrip(".")
