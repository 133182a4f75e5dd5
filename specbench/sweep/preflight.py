"""Before minutes are lost: do requests fit the model, and all of it the device? How long will the starts take?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from specbench.backends.base import EngineOptions
from specbench.errors import SpecbenchError
from specbench.model_config import model_config
from specbench.sweep.config import SweepConfig
from specbench.sweep.plan import SweepPlan
from specbench.sweep.requests import request_order
from specbench.telemetry.inventory import AMD_UNSUPPORTED, has_amd_gpu, list_gpus, silent_gpus
from specbench.workloads.prompt import Workload

_BYTES = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0}
_QUANTIZED_BYTES = {"fp8": 1.0, "int8": 1.0, "int4": 0.5}
"""Bytes per weight by what quantizes at load; checkpoints that are quantized already are as large as their files."""

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""Where configurations say how many experts there are."""

_UNSTRETCHED = ("default", "llama3", "longrope", "su")
"""Kinds of RoPE under which max_position_embeddings is what it says."""

_EXAMPLE_RATE = 100
"""Nobody knows the engine's rate before it has run; from a round one people reckon to their own."""

ENGINE_SHARE = 0.9
"""Of a GPU's memory that engines take when they are not told otherwise."""

_SHARE_OF_THE_REST = frozenset({"tensorrt-llm"})
"""Backends whose share is of what is free once the weights are loaded."""


def check_fit(
    config: SweepConfig,
    options: EngineOptions,
    target: Path,
    drafters: Iterable[Path],
    note: Callable[[str], None],
) -> None:
    """Refuse what cannot fit and note what will be tight, from the models' configurations and file sizes.

    An estimate: activations and the engine's own buffers are not in it. Says nothing where the device or the
    model's shape is not known.
    """
    _check_length(config, target)
    whole = _device_memory(config.device, options.tensor_parallel)
    if whole is None:
        unseen = (
            f"no answer from {', '.join(silent)}" if (silent := silent_gpus()) else "no GPU is to be seen from here"
        )
        why = AMD_UNSUPPORTED if has_amd_gpu() else unseen
        note(f"--device {config.device}, but {why}: memory was not checked.")
        return
    drafter = max((weight_bytes(path, config.dtype, None) for path in drafters), default=0)
    weights = weight_bytes(target, config.dtype, options.quantization) + drafter
    share = 1.0 if config.device == "cpu" else options.memory_fraction or ENGINE_SHARE
    after_weights = config.backend in _SHARE_OF_THE_REST
    memory = whole if after_weights else int(whole * share)
    if weights > memory:
        raise SpecbenchError(
            f"{config.target} and its drafter take about {_gib(weights)}, and the device has {_gib(memory)}. "
            "Quantize them, split them with --tensor-parallel, or take a smaller model."
        )
    per_token = kv_bytes_per_token(target, config.dtype)
    if per_token is None:
        return
    given = (options.kv_cache_bytes or 0) * options.tensor_parallel  # of each GPU, for its part of the heads
    room = given or int((memory - weights) * (share if after_weights else 1))
    one, all_of_them = per_token * config.max_model_len, per_token * config.max_model_len * max(config.batch_size)
    if one > room:
        raise SpecbenchError(
            f"a request of {config.max_model_len} tokens needs {_gib(one)} of KV cache, and there are {_gib(room)} for "
            "it. Lower --max-model-len, or give it more room (--kv-cache, --memory-fraction, --tensor-parallel)."
        )
    if all_of_them > room:
        note(
            f"The KV cache ({_gib(room)}) holds {room // one} requests of --max-model-len tokens, fewer than the "
            "largest batch size: if outputs are long, the engine will throw requests out and compute them again."
        )


def weight_bytes(model: Path, dtype: str, quantization: str | None) -> int:
    """Memory of a model's weights as they are loaded: stored ones change size with the precision they run in."""
    stored = sum(file.stat().st_size for file in _weight_files(model))
    config = model_config(model)
    if "quantization_config" in config:
        return stored
    per_weight = _QUANTIZED_BYTES.get(quantization or "", _BYTES.get(dtype, 2.0))
    return int(stored * per_weight / _BYTES.get(str(config.get("torch_dtype") or config.get("dtype")), 2.0))


def _weight_files(model: Path) -> list[Path]:
    """Those that are loaded: some repositories have the same weights a second time, under Mistral's names."""
    files = [*model.glob("*.safetensors")]
    old = [*model.glob("*.bin")] or [*model.glob("*.pt")]
    return [file for file in files if not file.name.startswith("consolidated")] or files or old


def weight_bytes_per_pass(model: Path, dtype: str, quantization: str | None) -> int | None:
    """Weights that every decoding pass must read: all but an input embedding of its own, of which a pass reads rows.

    None for a mixture of experts, which reads those that it needs, and where there are no weights to look at.
    """
    total = weight_bytes(model, dtype, quantization) if _weight_files(model) else 0
    shape = _text_shape(model) if total else {}
    if not total or any((_size(shape, name) or 0) > 1 for name in _EXPERTS):
        return None
    if shape.get("tie_word_embeddings", False):
        return total
    embedding = (_size(shape, "vocab_size") or 0) * (_size(shape, "hidden_size") or 0)
    return max(0, total - int(embedding * _BYTES.get(dtype, 2.0))) or None


def kv_bytes_per_token(model: Path, dtype: str) -> int | None:
    """Keys and values of one token in all layers; None for a shape that does not say (latent attention, hybrids)."""
    shape = _text_shape(model)
    heads, layers = _size(shape, "num_attention_heads"), _size(shape, "num_hidden_layers")
    if heads is None or layers is None or "kv_lora_rank" in shape:
        return None
    head_dim, width = _size(shape, "head_dim"), _size(shape, "hidden_size")
    if head_dim is None:
        if width is None:
            raise SpecbenchError(f"{model / 'config.json'} gives no hidden_size. Download the model again.")
        head_dim = width // heads
    kv_heads = _size(shape, "num_key_value_heads") or heads
    return int(2 * layers * kv_heads * head_dim * _BYTES.get(dtype, 2.0))


def describe_starts(plan: SweepPlan, start_seconds: float) -> str:
    """What the plan's server starts cost, in a sentence."""
    count = len(plan.launches)
    return f"{count} server starts of about {start_seconds:.0f} s each, {duration(count * start_seconds)} in all"


def describe_load(plan: SweepPlan, workloads: Mapping[str, Workload], config: SweepConfig) -> str:
    """How much the measurements decode, without their warm-up, in a sentence; of open loops how long they last."""
    order = cache(lambda workload, batch_size: request_order(workloads[workload], config, batch_size))
    tokens, seconds = 0, 0.0
    for cell in (measurement.cell for measurement in plan.measurements):
        requests = order(cell.workload, cell.batch_size)
        if cell.request_rate is None:
            tokens += sum(request.max_tokens for request in requests)
        else:
            seconds += len(requests) / cell.request_rate
    if not tokens:
        return f"requests that come over about {duration(seconds)}"
    time = duration(tokens / _EXAMPLE_RATE)
    return f"up to {tokens:,} output tokens: about {time} at {_EXAMPLE_RATE} tokens per second"


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _device_memory(device: str, gpu_count: int) -> int | None:
    if device == "cpu":
        return psutil.virtual_memory().total
    gpus = sorted((gpu.memory_bytes for gpu in list_gpus()), reverse=True)[:gpu_count]
    return sum(gpus) or None


def _check_length(config: SweepConfig, target: Path) -> None:
    shape = _text_shape(target)
    limit = _size(shape, "max_position_embeddings")
    if limit is None or _stretched(shape) or config.engine_arg:
        return  # an engine's own arguments may override what the model says of itself
    if config.max_model_len > limit:
        raise SpecbenchError(
            f"--max-model-len {config.max_model_len} is more than {config.target} has positions for. "
            f"Its limit is {limit} (max_position_embeddings)."
        )


def _stretched(shape: Mapping[str, Any]) -> bool:
    """Whether engines take more than max_position_embeddings: YaRN and the like are given before their factor."""
    rope = shape.get("rope_scaling") or shape.get("rope_parameters") or {}
    return not isinstance(rope, dict) or rope.get("rope_type", rope.get("type", "default")) not in _UNSTRETCHED


def _text_shape(model: Path) -> Mapping[str, Any]:
    """Of a multimodal model the part that generates text."""
    config = model_config(model)
    text = config.get("text_config")
    return text if isinstance(text, dict) and text else config


def _size(shape: Mapping[str, Any], field: str) -> int | None:
    """None where the field is missing, or one per layer: then it is for the engine to judge."""
    value = shape.get(field)
    return value if type(value) is int and value > 0 else None


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
