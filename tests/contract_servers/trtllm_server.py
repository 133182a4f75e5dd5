"""A `trtllm-serve` without an engine: its command line, its configuration file, its refusals, its endpoints.

Flags from `commands/serve.py`, settings from `llmapi/llm_args.py` of the versions that it plays, written down apart
from specbench's own schema: that one is what is tried here.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Union

import yaml
from contract_server import Behaviour, behaviour, run
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

_BASE = {
    "1.2": (
        *("max_draft_len", "max_total_draft_tokens", "speculative_model", "speculative_model_dir", "max_concurrency"),
        *("draft_len_schedule", "load_format", "acceptance_window", "acceptance_length_threshold"),
        "allow_advanced_sampling",
    ),
    "1.3": (
        *("max_draft_len", "max_total_draft_tokens", "speculative_model", "speculative_model_dir", "max_concurrency"),
        *("draft_len_schedule", "load_format", "acceptance_rate_window_size", "acceptance_rate_threshold"),
        *("allow_advanced_sampling", "use_rejection_sampling", "advanced_sampling_mode", "enable_penalty"),
    ),
}
_EAGLE = ("eagle_choices", "use_dynamic_tree", "dynamic_tree_max_topK", "eagle3_layers_to_capture", "eagle3_model_arch")
_NGRAM = ("max_matching_ngram_size", "is_keep_all", "is_use_oldest", "is_public_pool")
_MTP = ("num_nextn_predict_layers", "use_relaxed_acceptance_for_thinking", "relaxed_topk", "relaxed_delta")
_DECODING: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "1.2": {
        "DraftTarget": (),
        "Eagle": (*_EAGLE, "greedy_sampling", "posterior_threshold", "num_eagle_layers", "eagle3_one_model"),
        "NGram": _NGRAM,
        "MTP": (*_MTP, "use_mtp_vanilla", "mtp_eagle_one_model"),
    },
    "1.3": {
        "Draft_Target": (),
        "Eagle3": (*_EAGLE, "sa_config"),  # of the later release candidates: eagle3_one_model is gone
        "NGram": _NGRAM,
        "MTP": (*_MTP, "use_mtp_vanilla", "sa_config"),
        "SA": ("max_matching_ngram_size", "enable_global_pool", "global_pool_size"),
    },
}
_SETTINGS = (
    *("backend", "dtype", "max_batch_size", "max_seq_len", "max_num_tokens", "tensor_parallel_size"),
    *("kv_cache_config", "cuda_graph_config", "disable_overlap_scheduler", "enable_iter_perf_stats"),
    *("speculative_config", "moe_config", "stream_interval", "print_iter_log", "enable_chunked_prefill"),
)
_METHODS = {
    **{"DraftTarget": "draft_model", "Draft_Target": "draft_model", "Eagle": "eagle3", "Eagle3": "eagle3"},
    **{"NGram": "ngram", "MTP": "mtp", "SA": "suffix"},
}
_ONE_ENGINE = ("eagle3", "mtp")


def main() -> None:
    wanted = behaviour()
    flags = _flags(sys.argv[1:])
    if wanted.gpus == 0:
        _fail("ValueError: No GPU devices found on the node")
    version = wanted.version or "1.2.1"
    settings = _settings(flags.extra_llm_api_options, version[:3])
    _serve(wanted, flags, settings, version)


class _Click(argparse.ArgumentParser):
    """Says what click says."""

    def error(self, message: str) -> NoReturn:
        unknown = message.partition("unrecognized arguments: ")[2].split()
        text = f"No such option: {unknown[0]}" if unknown else message
        print(f"Usage: trtllm-serve serve [OPTIONS] MODEL\n\nError: {text}", file=sys.stderr, flush=True)
        sys.exit(2)


def _flags(words: list[str]) -> argparse.Namespace:
    parser = _Click(prog="trtllm-serve", allow_abbrev=False)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--backend", choices=["pytorch", "tensorrt", "_autodeploy"], default="pytorch")
    for name in ("--max_batch_size", "--max_num_tokens", "--max_seq_len", "--gpus_per_node", "--max_beam_width"):
        parser.add_argument(name, type=int)
    parser.add_argument("--tensor_parallel_size", "--tp_size", type=int, default=1)
    parser.add_argument("--moe_expert_parallel_size", "--ep_size", type=int)
    parser.add_argument("--free_gpu_memory_fraction", "--kv_cache_free_gpu_memory_fraction", type=float, default=0.9)
    parser.add_argument("--extra_llm_api_options", "--config", type=Path)
    parser.add_argument("--trust_remote_code", action="store_true")
    parser.add_argument("--log_level", default="info")
    return parser.parse_args(words)


def _settings(file: Path | None, version: str) -> dict[str, Any]:
    """The file's, refused as the engine refuses them. Raises pydantic's own ValidationError, or exits."""
    settings: dict[str, Any] = {} if file is None else yaml.safe_load(file.read_text()) or {}
    _strict("TorchLlmArgs", _SETTINGS).model_validate(settings)
    if (speculative := settings.get("speculative_config")) is not None:
        _check_speculation(speculative, version)
    graphs = settings.get("cuda_graph_config") or {}
    if graphs.get("batch_sizes") and graphs.get("max_batch_size"):
        _fail("ValueError: Please don't set both cuda_graph_config.batch_sizes and cuda_graph_config.max_batch_size.")
    return settings


def _check_speculation(config: Mapping[str, Any], version: str) -> None:
    known, kind = _DECODING[version], config.get("decoding_type")
    if version == "1.2":
        if kind not in known:
            _fail(f"ValueError: Invalid decoding type: {kind}")
        _strict(f"{kind}DecodingConfig", (*_BASE[version], *known[kind], "decoding_type")).model_validate(config)
    else:
        models = [_strict(f"{k}DecodingConfig", (*_BASE[version], *names), k) for k, names in known.items()]
        tagged = Annotated[Union[tuple(models)], Field(discriminator="decoding_type")]  # noqa: UP007
        TypeAdapter(tagged).validate_python(config)
    if not config.get("max_draft_len"):
        _fail("ValueError: max_draft_len must be > 0")
    if kind not in ("NGram", "MTP", "SA") and not config.get("speculative_model_dir", config.get("speculative_model")):
        _fail("ValueError: Draft model must be provided for EAGLE")


def _strict(name: str, fields: tuple[str, ...], tag: str | None = None) -> type[BaseModel]:
    known: dict[str, Any] = dict.fromkeys(fields, (Any, None))
    if tag is not None:
        known["decoding_type"] = (Literal[tag], ...)
    model: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **known)
    return model


def _serve(wanted: Behaviour, flags: argparse.Namespace, settings: Mapping[str, Any], version: str) -> None:
    """The socket is bound before the model is loaded, and listens after."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((flags.host, flags.port))
        time.sleep(wanted.scenario.start_seconds)
    given = settings.get("speculative_config") or {}
    speculative = {name: value for name, value in given.items() if name not in wanted.forgets}
    method = _METHODS[speculative["decoding_type"]] if speculative else "none"
    overlap = not settings.get("disable_overlap_scheduler", False)
    if method == "ngram" and overlap:
        print("[TRT-LLM] [W] Disable overlap scheduler for speculation mode NGRAM", flush=True)
        overlap = False
    if method in _ONE_ENGINE and not speculative.get("allow_advanced_sampling"):
        kind = speculative["decoding_type"]
        print(f"[TRT-LLM] [W] Falling back to greedy decoding for {kind}. If you want to use non-greedy …", flush=True)
    from trtllm_format import contract_format

    run(
        "tensorrt_llm",
        wanted.model_copy(update={"scenario": wanted.scenario.model_copy(update={"start_seconds": 0.0})}),
        contract_format(version, overlap=overlap, told=bool(settings.get("enable_iter_perf_stats"))),
        method=method,
        gamma=speculative.get("max_draft_len", 0),
        model_name=Path(flags.model).name,
        max_batch_size=flags.max_batch_size or 2048,
        max_model_len=flags.max_seq_len or 2048,
        prefix_caching=(settings.get("kv_cache_config") or {}).get("enable_block_reuse", True),
        host=flags.host,
        port=flags.port,
        schedule=_schedule(speculative, version),
    )


def _schedule(speculative: Mapping[str, Any], version: str) -> str | None:
    """draft_len_schedule as the scenario's engine has it: by the smallest batch until 1.2, by the largest since."""
    steps: dict[int, int] | None = speculative.get("draft_len_schedule")
    if steps is None:
        return None
    if version.startswith("1.2"):
        return "+".join(f"{first}={gamma}" for first, gamma in sorted(steps.items()))
    firsts = [1, *(last + 1 for last in sorted(steps))]
    return "+".join(
        f"{first}={gamma}" for first, gamma in zip(firsts, [*(steps[b] for b in sorted(steps)), 0], strict=True)
    )


def _fail(text: str) -> NoReturn:
    print(f"Traceback (most recent call last):\n  …\n{text}", file=sys.stderr, flush=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
