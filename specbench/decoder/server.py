"""The reference decoder as a server process.

python -m specbench.decoder.server --target DIR --method ngram --gamma 4 --port 0
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import platform
import sys
from importlib import metadata
from typing import Any, get_args

import torch
from transformers import AutoTokenizer

from specbench.decoder.drafters import METHODS
from specbench.decoder.engine import Engine
from specbench.decoder.gpu_check.timing import read_bandwidth
from specbench.decoder.kernels import USES
from specbench.decoder.lagged import LAGGED, LaggedEngine
from specbench.decoder.load import load_engine
from specbench.decoder.models import QUANTIZATIONS
from specbench.decoder.service import DecoderService
from specbench.decoder.tree_shape import CHAIN, parse_tree
from specbench.decoder.verifier import Verification
from specbench.decoder.worker import Worker
from specbench.wire.app import make_runner
from specbench.wire.process import die_with_parent, serve_until_stopped


def main() -> None:
    """Serve until SIGTERM or SIGINT. Settings that do not fit are one sentence on stderr and exit code 1."""
    options = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if options.die_with_parent:
        die_with_parent()
    try:
        worker = Worker(lambda: _load(options))
        tokenizer = AutoTokenizer.from_pretrained(options.target)
        asyncio.run(_serve(worker, tokenizer, options))
    except (ValueError, OSError) as error:
        sys.exit(f"specbench.decoder.server: {error}")
    except KeyboardInterrupt:  # while it loads; once it serves, that is how it ends
        print("specbench.decoder.server: stopped before the model was loaded.", file=sys.stderr, flush=True)
        os._exit(130)  # the thread that loads cannot be asked to end


def _load(options: argparse.Namespace) -> Engine:
    engine = load_engine(
        options.target,
        method=options.method,
        gamma=options.gamma,
        drafter=options.drafter,
        dtype=options.dtype,
        device=options.device,
        max_batch_size=options.max_batch_size,
        max_model_len=options.max_model_len,
        verification=options.verification,
        logprobs_mode=options.logprobs_mode,
        acceptance=options.acceptance,
        threads=options.threads,
        quantization=options.quantization,
        tree=parse_tree(options.tree),
        kernels=options.kernels,
        suffix_cached_requests=options.suffix_cached_requests,
        lagged=options.lagged,
    )
    columns = 2048 if options.device == "cpu" else 4096
    engine.counters.read_bytes_per_s = read_bandwidth(engine.target.device, columns, repeats=5)
    return engine


async def _serve(worker: Worker, tokenizer: Any, options: argparse.Namespace) -> None:
    service = DecoderService(
        worker, tokenizer, options.served_model_name or options.target, _settings(worker.engine, options)
    )
    runner = make_runner(service)
    await runner.setup()
    await serve_until_stopped(runner, options.host, options.port)
    service.stop()
    await runner.cleanup()


def _settings(engine: Engine, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "version": _version(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "method": options.method,
        "device": str(engine.target.device),
        "tree": options.tree,
        "suffix_cached_requests": options.suffix_cached_requests,
        "dtype": str(engine.target.dtype).removeprefix("torch."),
        "quantization": engine.target.quantization,
        "kernels": engine.target.on_kernels,
        "lagged": isinstance(engine, LaggedEngine),
        "threads": torch.get_num_threads(),
    }


def _version() -> str:
    try:
        return metadata.version("specbench")
    except metadata.PackageNotFoundError:
        return "unknown"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="specbench.decoder.server", description=__doc__)
    parser.add_argument("--target", required=True, help="Hugging Face directory of the model")
    parser.add_argument("--served-model-name", help="name in requests and answers; the directory by default")
    parser.add_argument("--method", default="none", choices=METHODS)
    parser.add_argument(
        "--gamma",
        default="0",
        help="tokens drafted per step, 0 with method none; or a rule: schedule:1=4+9=0 by batch size, "
        "adaptive:threshold, adaptive:goodput, adaptive:confidence",
    )
    parser.add_argument(
        "--tree",
        default=CHAIN,
        help="how drafts branch, gamma being their depth: 8x60 (the 8 likeliest of each depth, 60 nodes verified), "
        "static:4x2x1 (children by depth), or chain",
    )
    parser.add_argument(
        "--suffix-cached-requests",
        type=int,
        default=0,
        help="method suffix drafts from the last so many responses too: a prompt sent again drafts its own answer",
    )
    parser.add_argument("--drafter", help="directory of the drafter's weights")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--max-batch-size", type=int, default=8, help="requests decoded together")
    parser.add_argument("--max-model-len", type=int, help="prompt and output tokens per request; 2048 by default")
    parser.add_argument("--dtype", default="auto", help="float32, bfloat16, float16 or auto")
    parser.add_argument("--quantization", choices=QUANTIZATIONS, help="weights of the target in so many bits")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--kernels",
        default="off",
        choices=USES,
        help="auto: Triton kernels and CUDA graphs on GPUs that take them; no GPU has run them yet",
    )
    parser.add_argument(
        "--lagged",
        default="off",
        choices=LAGGED,
        help="auto: steps on a GPU as a whole, read one step behind, where method and settings allow it; no GPU has "
        "run them yet; on: a CPU too",
    )
    parser.add_argument("--verification", default="rejection", choices=get_args(Verification))
    parser.add_argument(
        "--logprobs-mode",
        default="raw",
        choices=("raw", "processed"),
        help="log-probabilities before temperature, top-k and top-p, or after them",
    )
    parser.add_argument(
        "--acceptance",
        help="made up in the place of verdicts: synthetic:0.8, or a rate per position, synthetic:0.9,0.7. "
        "Outputs are then not the target's",
    )
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument(
        "--die-with-parent", action="store_true", help="end when the process that started this one ends"
    )
    return parser


if __name__ == "__main__":
    main()
