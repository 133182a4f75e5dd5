"""From directories and settings to a running engine."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from specbench.decoder.cache import KVCache
from specbench.decoder.checkpoint import Checkpoint
from specbench.decoder.config import ModelConfig
from specbench.decoder.device import resolve_device, use_gpu
from specbench.decoder.drafters import load_drafter
from specbench.decoder.drafters.base import DrafterContext
from specbench.decoder.engine import Engine, cache_slots
from specbench.decoder.kernels import USES
from specbench.decoder.lagged import LAGGED, LaggedEngine, obstacle
from specbench.decoder.logprobs import LogprobsMode
from specbench.decoder.models.llama import Llama
from specbench.decoder.policies import FixedGamma, parse
from specbench.decoder.rates import parse_rates
from specbench.decoder.synthetic import SyntheticAcceptance
from specbench.decoder.tree_shape import TreeShape, check_tree
from specbench.decoder.verifier import Verification

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

MAX_THREADS = 1024
"""With many more, starting them ends the process without a word."""


def load_engine(
    target: str | Path,
    *,
    method: str = "none",
    gamma: int | str = 0,
    drafter: str | Path | None = None,
    dtype: str = "auto",
    device: str = "cpu",
    max_batch_size: int = 8,
    max_model_len: int | None = None,
    verification: Verification = "rejection",
    logprobs_mode: LogprobsMode = "raw",
    acceptance: str | None = None,
    threads: int | None = None,
    quantization: str | None = None,
    tree: TreeShape | None = None,
    kernels: str = "off",
    suffix_cached_requests: int = 0,
    lagged: str = "off",
) -> Engine:
    """An engine over the Hugging Face directory `target`, with a drafter of this method.

    gamma: 0 exactly when the method is `none`; or the rule that sets it, as `policies.parse` reads it
    drafter: directory of the drafter's weights, for methods that have them
    dtype: float32, bfloat16, float16, or auto: the weights' own, but float32 on a CPU that doesn't compute in it
    max_model_len: prompt and output tokens per request; None is 2048, or the model's own limit where that is less
    acceptance: made up in the place of verdicts, `synthetic:0.8` or a rate per position; None for exact verification
    threads: CPU threads of the whole process; None leaves PyTorch's choice
    quantization: int8 or int4 weights of the target, on a CPU: another model, whose outputs speculation leaves
    tree: how drafts branch, gamma being their depth (`tree_shape.parse_tree`); None for chains
    kernels: off; or auto, the Triton kernels and CUDA graphs where they run (docs/kernels.md), else PyTorch
    suffix_cached_requests: the last so many responses, from which method suffix drafts too
    lagged: off; or auto, steps on the device as a whole, read one step behind (`lagged.py`), on a GPU where nothing
        stands against them; or on, which refuses where something does, and takes a CPU too
    Raises ValueError, with the way out, for whatever can't be loaded or doesn't fit together.
    """
    policy = parse(gamma)
    most = policy.largest
    if (method == "none") != (most == 0) or most < 0:
        raise ValueError(f"method none goes with gamma 0, others with gamma >= 1; got {method} with gamma {gamma}.")
    rates = None if acceptance is None else parse_rates(acceptance)
    check_tree(tree, most, verification, rates is not None)
    if max_batch_size < 1:
        raise ValueError(f"max_batch_size must be at least 1; got {max_batch_size}.")
    if threads is not None:
        if not 1 <= threads <= MAX_THREADS:
            raise ValueError(f"threads must be 1..{MAX_THREADS}; got {threads}. More than the CPU has cores only wait.")
        torch.set_num_threads(threads)
    if kernels not in USES:
        raise ValueError(f"unknown use of kernels {kernels!r}. Choose from: {', '.join(USES)}.")
    if lagged not in LAGGED:
        raise ValueError(f"unknown use of lagged steps {lagged!r}. Choose from: {', '.join(LAGGED)}.")
    config = ModelConfig.from_directory(target)
    if max_model_len is None:
        max_model_len = min(2048, config.max_length)
    if not 2 <= max_model_len <= config.max_length:
        raise ValueError(f"max_model_len must be 2..{config.max_length}, the model's own limit; got {max_model_len}.")
    checkpoint, place = Checkpoint(target), resolve_device(device)
    if place.type == "cuda":
        use_gpu(place)
    computed_in = resolve_dtype(dtype, checkpoint.dtype, place)
    model = Llama(config, checkpoint, computed_in, place, quantization, on_kernels=kernels == "auto")
    if model.token_ids is not None:
        raise ValueError(f"{target} has a head for a part of its vocabulary: it can draft, and not be a target.")
    cache = KVCache(config, max_batch_size, cache_slots(max_model_len, most, tree), computed_in, place)
    context = DrafterContext(
        target=model,
        target_directory=Path(target),
        directory=None if drafter is None else Path(drafter),
        cache=cache,
        gamma=most,
        stop_below=policy.stop_below,
        tree=tree,
        cached_requests=suffix_cached_requests,
    )
    asked = None if type(policy) is FixedGamma else policy  # which need not be asked at every step
    loaded = load_drafter(method, context)
    may_lag = place.type == "cuda" and obstacle(loaded, verification, asked) is None
    engine = LaggedEngine if lagged == "on" or (lagged == "auto" and may_lag) else Engine
    return engine(
        model,
        loaded,
        most,
        max_batch_size,
        max_model_len,
        verification,
        eos_token_ids=eos_token_ids(target),
        logprobs_mode=logprobs_mode,
        acceptance=None if rates is None else SyntheticAcceptance(rates, most, place),
        policy=asked,
        tree=tree,
        cache=cache,
    )


def resolve_dtype(name: str, stored: torch.dtype, device: torch.device) -> torch.dtype:
    """The dtype to compute in. Raises ValueError for an unknown name."""
    if name != "auto":
        if name not in DTYPES:
            raise ValueError(f"unknown dtype {name!r}. Choose from: auto, {', '.join(DTYPES)}.")
        return DTYPES[name]
    if device.type == "cpu" and not (stored == torch.bfloat16 and _cpu_computes_bfloat16()):
        return torch.float32
    return stored


def _cpu_computes_bfloat16() -> bool:
    """Without instructions for it, bfloat16 halves the bytes but is converted element by element: for more than one
    token at a time it is slower than float32, by a factor of up to two at eight."""
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()


def eos_token_ids(directory: str | Path) -> tuple[int, ...]:
    """The tokens that end a text: of generation_config.json, else of config.json; () if neither names any."""
    for name in ("generation_config.json", "config.json"):
        path = Path(directory) / name
        if path.exists():
            ids = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
            if ids is not None:
                return tuple(ids) if isinstance(ids, list) else (ids,)
    return ()
