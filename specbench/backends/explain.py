"""Why an engine did not start, in plain words, from the last lines of its log."""

from __future__ import annotations

import re
from collections.abc import Mapping

ARTICLE_FLAGS = {
    "--speculative-model": "--drafter",
    "--num-speculative-tokens": "--gamma",
    "--speculative-draft-tensor-parallel-size": "--tensor-parallel (the drafter is split as the target is)",
    "--ngram-prompt-lookup-max": "--method ngram",
    "--ngram-prompt-lookup-min": "--method ngram",
    "--use-v2-block-manager": "nothing: there is no other block manager",
}
"""Flags of older articles that vLLM no longer has -> what says the same to specbench."""

CAUSES_OF: Mapping[str, tuple[tuple[str, str], ...]] = {
    "tensorrt-llm": (
        (
            r"No GPU devices found on the node",
            "TensorRT-LLM finds no GPU: check the driver, and that the container is given the GPUs.",
        ),
        (
            r"(?:Invalid decoding type: |Input tag ')(\w+)",
            "This version of TensorRT-LLM does not know decoding type {1}: say which it is (--engine-version), or take "
            "another method.",
        ),
        (
            r"(?m)^([\w.]+)\n\s+Extra inputs are not permitted",
            "This version of TensorRT-LLM has no setting {1}: say which it is (--engine-version), or leave it out.",
        ),
    ),
}
"""As CAUSES, of one engine: in another's log the same words, which are pydantic's, mean something else."""

CAUSES = (
    (
        r"Bfloat16 is only supported on GPUs",
        "This GPU does not compute in bfloat16: --dtype float32, in which attention is slower.",
    ),
    (
        r"[Aa]ddress already in use|Errno 98",
        "The port is taken by another server: stop that one (`specbench doctor` finds those of killed runs).",
    ),
    (
        r"unrecognized arguments: ([^\n]*)",
        "This version of the engine does not know {1}: leave it out, or install another version.",
    ),
    (
        r"ambiguous option: (\S+) could match",
        "Several flags of this version of the engine begin with {1}: write the one that is meant whole.",
    ),
    (
        r"Unknown speculative algorithm name: (\w+)",
        "This version of SGLang has no speculative algorithm {1}: install another version, or take another method.",
    ),
    (
        r"Target and draft model should have the same vocabulary size",
        "The draft model has another vocabulary than the target: use one with the target's tokenizer.",
    ),
    (
        r"larger than the available KV cache memory|KV cache is needed, which is larger",
        "The KV cache cannot hold one request of --max-model-len tokens: lower that, or give the cache more memory "
        "(--kv-cache, --memory-fraction).",
    ),
    (
        r"No available memory for the cache blocks|leave no GPU memory for the KV cache",
        "The weights leave no memory for a KV cache: raise --memory-fraction, quantize, or split the model with "
        "--tensor-parallel.",
    ),
    (
        r"CUDA out of memory|OutOfMemoryError|can't allocate memory",
        "Out of memory: lower --memory-fraction, --max-model-len or the largest --batch-size, or split the model with "
        "--tensor-parallel.",
    ),
    (
        r"(?:Free|Available) memory on .* is less than desired",
        "Other processes hold the memory that this engine asks for: end them, or lower --memory-fraction.",
    ),
    (
        r"[Aa]rctic[-_ ][Ii]nference",
        "Suffix decoding needs one more package in the engine's environment: `specbench backend install vllm --with "
        "suffix` (with --cpu as before), or in your own: PYTHON -m pip install --no-deps arctic-inference==0.1.1",
    ),
    (
        r"Unsupported speculative method: '?(\w+)",
        "The engine cannot run {1} with this model: see whether the target brings what the method needs.",
    ),
    (
        r"Repository Not Found|not a valid model identifier|Invalid repository ID or local directory",
        "The engine cannot find the target's or the drafter's weights: give an existing directory.",
    ),
    (
        r"No CUDA GPUs are available|Failed to infer device type|Found no NVIDIA driver|No accelerator \(CUDA|"
        r"libcuda\.so\.1: cannot open",
        "The engine sees no GPU: check the driver, or install its CPU build and use --device cpu.",
    ),
    (r"No such option: ?(\S+)", "This version of the engine does not know {1}: leave it out."),
    (
        r"No module named '?(vllm|sglang|tensorrt_llm)",
        "That Python has no {1}: run `specbench backend install {1}`, or name the right one with --python.",
    ),
    (
        r"Unable to find image|No such image|manifest unknown|pull access denied",
        "There is no such container image: check --container.",
    ),
    (
        r"Cannot connect to the Docker daemon|could not select device driver",
        "The container runtime does not work here, or gives no access to GPUs: try it by hand first.",
    ),
    (r"No space left on device", "The disk is full."),
    (r"(?ms)\A.*^specbench\.decoder\.server: ([^\n]+)", "{1}"),  # the reference decoder's own last sentence
    # The last resort: the first error that the engine raised is the cause, the others follow from it.
    (r"Value error, (.+?) \[type=", "The engine says: {1}"),
    (r"(?:ValueError|NotImplementedError|RuntimeError|AssertionError): ([^\n]{1,300})", "The engine says: {1}"),
)
"""What to look for in a log, and what it means ({1}: the pattern's group). The first that is found is told."""


def explain(log: str, engine: str = "") -> str | None:
    """The sentence for the first known cause found in `log`, or None. engine: a backend's name"""
    for flag in ARTICLE_FLAGS if engine == "vllm" else ():
        if re.search(rf"unrecognized arguments:.*{flag}\b", log):
            return article_flag(flag)
    for pattern, sentence in (*CAUSES_OF.get(engine, ()), *CAUSES):
        if match := re.search(pattern, log):
            return sentence.replace("{1}", match[1].strip()) if match.groups() else sentence
    return None


def article_flag(flag: str) -> str:
    """What to write instead of a flag that old articles name."""
    return f"vLLM no longer has {flag} (it takes one --speculative-config). Write {ARTICLE_FLAGS[flag]} instead."
