"""A `sglang serve` without an engine: its command line, its refusals, its endpoints.

Flags as the parser of SGLang 0.5.23 has them, all of them (sglang_flags.json; a test compares them with the real one);
errors as its resolver raises them (arg_groups/speculative_hook.py), written down apart from specbench's own refusals.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from contract_server import Behaviour, behaviour, run

HERE = Path(__file__).parent
TYPES = {"int": int, "float": float, "str": str}
METHODS = {"EAGLE3": "eagle3", "EAGLE": "eagle", "NEXTN": "mtp", "STANDALONE": "draft_model", "NGRAM": "ngram"}
BUILT_IN = (*METHODS, "DFLASH", "DSPARK", "UNO")
UNLIMITED, SPECULATIVE_LIMIT = 4096, 48


def main(words: list[str]) -> None:
    wanted = behaviour()
    if words[:1] != ["serve"]:
        sys.exit("usage: sglang [-h] {serve,generate,version} ...")
    flags = _parser().parse_args(words[1:])
    resolved = resolve(flags)
    if not (Path(flags.model_path) / "config.json").is_file():
        raise OSError(f"{flags.model_path} is not a local folder and is not a valid model identifier")
    if wanted.gpus == 0:
        raise RuntimeError("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU.")
    _serve(wanted, resolved)


def _parser() -> argparse.ArgumentParser:
    """With the real one's habit of taking beginnings of flags, where only one begins so."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    for flag in json.loads((HERE / "sglang_flags.json").read_text()):
        if flag["takes"] is None:
            switch = argparse.BooleanOptionalAction if flag["flags"][-1].startswith("--no-") else "store_true"
            names = [name for name in flag["flags"] if not name.startswith("--no-")] or flag["flags"]
            parser.add_argument(*names, dest=flag["dest"], action=switch, default=False)
            continue
        options = {name: flag[name] for name in ("nargs", "choices") if name in flag}
        required = flag["dest"] == "model_path"
        parser.add_argument(*flag["flags"], dest=flag["dest"], type=TYPES[flag["takes"]], required=required, **options)
    parser.set_defaults(
        host="127.0.0.1",
        port=30000,
        tp_size=1,
        page_size=1,
        speculative_accept_threshold_single=1.0,
        speculative_accept_threshold_acc=1.0,
        speculative_ngram_max_bfs_breadth=10,
        attention_backend="fa3",
    )
    return parser


def resolve(flags: argparse.Namespace) -> dict[str, Any]:
    """What /server_info says of the settings. Raises what SGLang's own resolution raises."""
    found = vars(flags)
    algorithm = found["speculative_algorithm"] and found["speculative_algorithm"].upper()
    if algorithm is None:
        return found  # `max_running_requests` is filled in with speculation alone
    if algorithm not in BUILT_IN:
        raise ValueError(f"Unknown speculative algorithm name: {algorithm}")
    steps, width, tokens = (found[f"speculative_{name}"] for name in ("num_steps", "eagle_topk", "num_draft_tokens"))
    adaptive = found["speculative_adaptive"] and algorithm in ("EAGLE", "EAGLE3", "NEXTN")
    if algorithm == "NGRAM":
        width, tokens = found["speculative_ngram_max_bfs_breadth"], tokens or 12
        if width > 1 and found["page_size"] > 1:
            raise ValueError(
                f"speculative_eagle_topk({width}) > 1 with page_size({found['page_size']}) > 1 is unstable and "
                "produces incorrect results for paged attention backends."
            )
    else:
        if steps is None:
            assert width is None and tokens is None  # noqa: PT018
            steps, width, tokens = (3, 1, 4)
        thresholds = (found["speculative_accept_threshold_single"], found["speculative_accept_threshold_acc"])
        if found["speculative_use_rejection_sampling"]:
            if algorithm == "STANDALONE":
                raise NotImplementedError(
                    "--speculative-use-rejection-sampling is only supported for EAGLE / EAGLE3 / NEXTN, not "
                    f"speculative_algorithm={algorithm}."
                )
            if thresholds != (1.0, 1.0):
                raise ValueError("--speculative-use-rejection-sampling is incompatible with --speculative-accept-…")
        if width > 1 and found["page_size"] > 1:  # a TypeError without a width, as there
            raise ValueError("speculative_eagle_topk > 1 with page_size > 1 is only supported on …")
        tokens = steps + 1 if width == 1 else tokens
    if adaptive and steps not in _candidates(found["speculative_adaptive_config"]):
        raise ValueError(f"--speculative-num-steps={steps} is not in the adaptive config candidate_steps")
    return {
        **found,
        "method": METHODS[algorithm],
        "speculative_algorithm": "EAGLE" if algorithm == "NEXTN" else algorithm,
        "speculative_num_steps": steps,
        "speculative_eagle_topk": width,
        "speculative_num_draft_tokens": tokens,
        "speculative_adaptive": adaptive,
        "max_running_requests": found["max_running_requests"] or SPECULATIVE_LIMIT,
    }


def _entries(path: str) -> dict[int, list[int]]:
    config = json.loads(Path(path).read_text())
    return {int(size): entry["candidate_steps"] for size, entry in config.items() if size.isdigit()}


def _candidates(path: str) -> set[int]:
    return {step for steps in _entries(path).values() for step in steps}


def _schedule(resolved: dict[str, Any]) -> str | None:
    """Of the entries with one candidate each, which are all that is played here."""
    if not resolved.get("speculative_adaptive"):
        return None
    entries = _entries(resolved["speculative_adaptive_config"])
    return "+".join(f"{size}={steps[0]}" for size, steps in sorted(entries.items()))


def _serve(wanted: Behaviour, resolved: dict[str, Any]) -> None:
    from aiohttp import web

    from specbench.simulated.formats.sglang import Json, SglangFormat

    busy = [wanted.busy]

    class Format(SglangFormat):
        def server_info(self) -> Json:
            told = super().server_info()
            states = {name: told[name] for name in ("internal_states", "max_total_num_tokens")}
            return {**resolved, **states, "version": self.version}

        async def flush(self, request: web.Request) -> web.Response:
            if busy[0]:
                busy[0] -= 1
                return web.Response(status=400, text="Flush cache failed.\n")
            return await super().flush(request)

    Format.version = wanted.version or SglangFormat.version
    run(
        "sglang",
        wanted,
        Format,
        method=resolved.get("method", "none"),
        gamma=(resolved.get("speculative_num_draft_tokens") or 1) - 1 if "method" in resolved else 0,
        schedule=_schedule(resolved),
        model_name=resolved["served_model_name"] or resolved["model_path"],
        max_batch_size=resolved["max_running_requests"] or UNLIMITED,
        max_model_len=resolved["context_length"] or 2048,
        prefix_caching=not resolved["disable_radix_cache"],
        host=resolved["host"],
        port=resolved["port"],
    )


if __name__ == "__main__":
    main(sys.argv[1:])
