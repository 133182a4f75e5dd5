"""llama.cpp's own server, from the package that `specbench backend install llama.cpp --cpu` puts into its environment.

python -m specbench.backends.attach.llama_cpp_server --model target.gguf --port 8080 --method ngram --gamma 8

For measuring with --backend attach. Runs in the environment's own Python, so nothing of specbench is imported there.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib.util import find_spec

TYPES = {
    "none": "COMMON_SPECULATIVE_TYPE_NONE",
    "draft_model": "COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE",
    "ngram": "COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE",
}
"""llama.cpp's names of methods."""

NGRAM = 2
"""Tokens that are looked up, as the other engines are told."""


def main() -> None:
    options = _parser().parse_args()
    if options.method == "draft_model" and options.drafter is None:
        sys.exit("llama_cpp_server: method draft_model needs --drafter FILE.gguf")
    if find_spec("xllamacpp") is None:
        _elsewhere()
    _serve(options)


def _elsewhere() -> None:
    """Go on in the environment that has llama.cpp."""
    from specbench.backends.environments import engine_python
    from specbench.errors import SpecbenchError

    try:
        python = str(engine_python("llama.cpp", "cpu"))
    except SpecbenchError as error:
        sys.exit(f"llama_cpp_server: {error}")
    os.execv(python, [python, __file__, *sys.argv[1:]])


def _serve(options: argparse.Namespace) -> None:
    """Until it is ended by a signal, which the package does not turn into an end of its own."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = options.model, {options.served_model_name}
    params.n_parallel = options.max_batch_size
    params.n_ctx = options.max_batch_size * options.max_model_len
    params.hostnames, params.port = [options.host], options.port
    params.endpoint_metrics = params.endpoint_props = params.endpoint_slots = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.fit_params = False  # what was asked for, or an error
    params.speculative.types = [getattr(xllamacpp.common_speculative_type, TYPES[options.method])]
    if options.method == "draft_model":
        params.speculative.draft.mparams.path = options.drafter
        params.speculative.draft.n_max = options.gamma
    elif options.method == "ngram":
        params.speculative.ngram_simple.size_n = NGRAM
        params.speculative.ngram_simple.size_m = options.gamma
    server = xllamacpp.Server(params)
    print(f"llama.cpp serves at {server.listening_address}", flush=True)
    while True:
        time.sleep(3600)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="llama_cpp_server", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", required=True, help="the target, a GGUF file")
    parser.add_argument("--served-model-name", default="llama", help="name in requests and answers")
    parser.add_argument("--method", choices=sorted(TYPES), default="none")
    parser.add_argument("--drafter", help="of method draft_model, a GGUF file")
    parser.add_argument("--gamma", type=int, default=4, help="tokens drafted per step, at most")
    parser.add_argument("--max-batch-size", type=int, default=4, help="requests decoded together")
    parser.add_argument("--max-model-len", type=int, default=2048, help="prompt and output tokens per request")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    return parser


if __name__ == "__main__":
    main()
