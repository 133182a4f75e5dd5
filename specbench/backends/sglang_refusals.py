"""What SGLang accepts and then crashes on, ignores or answers with a traceback: refused before anything starts.

Read from the source of SGLang 0.5.23 (arg_groups/speculative_hook.py), and reproduced with its own parser and resolver.
"""

from __future__ import annotations

from collections.abc import Sequence

from specbench.errors import SpecbenchError

OWNED = {
    "--model-path": "--target",
    "--model": "--target",
    "--served-model-name": "--target",
    "--host": "nothing, it is the loopback device",
    "--port": "nothing, a free one is taken",
    "--device": "--device",
    "--base-gpu-id": "--device cuda:N",
    "--dtype": "--dtype",
    "--context-length": "--max-model-len",
    "--max-running-requests": "--batch-size",
    "--tp-size": "--tensor-parallel",
    "--tensor-parallel-size": "--tensor-parallel",
    "--quantization": "--quantization",
    "--mem-fraction-static": "--memory-fraction",
    "--disable-radix-cache": "--no-prefix-caching, which is the default",
    "--speculative-algorithm": "--method",
    "--speculative-draft-model-path": "--drafter",
    "--speculative-draft-model": "--drafter",
    "--speculative-num-steps": "--gamma",
    "--speculative-num-draft-tokens": "--gamma",
    "--speculative-eagle-topk": "nothing, drafts are chains here: gamma would say too little of a tree",
    "--speculative-adaptive": "--gamma schedule:1=4+5=2+9=0",
    "--speculative-adaptive-config": "--gamma schedule:1=4+5=2+9=0",
    "--cuda-graph-bs-decode": "nothing, both arms get the same graphs up to the largest --batch-size",
    "--cuda-graph-max-bs-decode": "nothing, both arms get the same graphs up to the largest --batch-size",
    "--enable-metrics": "nothing, they are on",
    "--sampling-defaults": "nothing, requests say how to sample",
    "--config": "--engine-arg for each setting",
}
"""SGLang's flags that specbench writes itself, and specbench's own for them."""

GONE = {
    "--cuda-graph-max-bs": "two flags begin so by now, and SGLang refuses to choose. Leave it out: both arms get the "
    "same graphs up to the largest --batch-size",
    "--cuda-graph-bs": "two flags begin so by now, and SGLang refuses to choose. Leave it out: both arms get the same "
    "graphs up to the largest --batch-size",
    "--speculative-ngram-max-match-window-size": "SGLang has it no longer. Use --speculative-ngram-max-trie-depth",
    "--speculative-ngram-min-match-window-size": "SGLang has it no longer. Leave it out",
}
"""Flags of older articles, and what is wrong with them."""


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise SpecbenchError for a flag of the user's that specbench sets itself, or that SGLang no longer has."""
    for argument in arguments:
        flag = argument.partition("=")[0]
        if not flag.startswith("--"):
            continue
        if flag in GONE:
            raise SpecbenchError(f"--engine-arg {flag}: {GONE[flag]}.")
        # argparse takes the beginning of a flag for it, `--tp` for --tp-size.
        owned = [name for name in OWNED if name.startswith(flag)]
        if owned:
            raise SpecbenchError(f"--engine-arg {flag}: specbench sets this itself. Use {OWNED[owned[0]]}.")


def check_combination(argv: Sequence[str]) -> None:
    """Raise SpecbenchError for flags that do not go together, however each came about."""
    flags = _flags(argv)
    algorithm = flags.get("--speculative-algorithm")
    width = int(flags.get("--speculative-ngram-max-bfs-breadth", "1"))
    if algorithm == "NGRAM" and width != 1:
        raise SpecbenchError(
            "--speculative-ngram-max-bfs-breadth above 1 drafts a tree, of which gamma says too little (and with pages "
            "of more than one token SGLang gives wrong outputs). Leave it out: drafts are chains here."
        )
    sampling = "--speculative-use-rejection-sampling"
    if sampling not in flags and "--speculative-use-block-verification" not in flags:
        return
    if algorithm not in (None, "EAGLE", "EAGLE3", "NEXTN"):
        raise SpecbenchError(
            f"{sampling} works with eagle3, eagle and mtp alone, and SGLang ends at once with {algorithm}. Leave it "
            "out: drafts are then taken greedily, and verification is exact all the same."
        )
    relaxed = [f"--speculative-accept-threshold-{kind}" for kind in ("single", "acc")]
    if found := next((flag for flag in relaxed if float(flags.get(flag, "1")) != 1), None):
        raise SpecbenchError(
            f"{sampling} ignores thresholds, and SGLang refuses it with {found}. Leave one of them out."
        )


def _flags(argv: Sequence[str]) -> dict[str, str]:
    """`--flag value`, `--flag=value` and `--flag`, the last of each, as argparse has it."""
    found = {}
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            found[flag] = value if equals else following
    return found
