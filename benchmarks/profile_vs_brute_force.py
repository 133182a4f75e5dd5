"""The offset profile against speculative runs of every gamma: the same steps, and how much less time.

    python benchmarks/profile_vs_brute_force.py [--prompts 42] [--longest 200] [--gamma 8] [--max-tokens 24]
        [--json FILE]

Prompts of workloads/, in turns from each file, are answered by plain greedy decoding of the demo target. Each method is
then profiled once from these answers, and run with every gamma from 1 to --gamma by the reference decoder, one request
at a time and in float32, as users measure acceptance. Compared are, per prompt and gamma, the tokens that every single
step drafted, accepted and emitted. The time of a profile contains the plain decoding that it starts from, which all
methods share.

Where two tokens are so near that the rounding of a wider pass decides between them, the two can differ: such prompts
are counted in `differing`.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import torch

from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.drafter import resolve_drafter
from specbench.profile.base import Profiler
from specbench.profile.decode import answer, load_profiler, load_target
from specbench.profile.lookups import NgramProfiler, SuffixProfiler
from specbench.profile.offsets import Transcript, walk
from specbench.target import resolve_target
from specbench.workloads import load_workload
from specbench.workloads.prompt import Prompt
from specbench.workloads.stats import tokens

WORKLOADS = Path(__file__).parents[1] / "workloads"

Steps = list[tuple[int, int, int]]
"""Tokens that each step drafted, accepted and emitted."""


def main() -> None:
    options = _parser().parse_args()
    torch.set_num_threads(options.threads)
    target = resolve_target(options.target)
    drafters = {
        "draft_model": resolve_drafter("draft_model", options.draft_model),
        "eagle3": resolve_drafter("eagle3", options.eagle3),
    }
    encode = tokens(target)
    prompts = [prompt for prompt in _prompts() if len(encode(prompt)) <= options.longest][: options.prompts]
    plain = load_target(target, device="cpu", dtype="float32", rows=1, threads=options.threads)
    begun = time.perf_counter()
    answered = list(answer(plain, prompts, encode, options.max_tokens))
    decoding = time.perf_counter() - begun
    print(f"{len(answered)} prompts answered in {decoding:.1f} s, {sum(len(t.response) for t in answered)} tokens")
    profilers: dict[str, Profiler] = {"ngram": NgramProfiler(), "suffix": SuffixProfiler()}
    profilers |= {method: load_profiler(method, plain, target, drafters[method])[0] for method in drafters}
    gammas = range(1, options.gamma + 1)
    results = {}
    for method, profiler in profilers.items():
        begun = time.perf_counter()
        profiled = _profiled(profiler, answered, gammas)
        passing = time.perf_counter() - begun
        begun = time.perf_counter()
        brute = {gamma: _run(target, method, gamma, drafters.get(method), answered) for gamma in gammas}
        running = time.perf_counter() - begun
        results[method] = _compare(profiled, brute) | {
            "profile_seconds": passing,
            "brute_force_seconds": running,
            "ratio": running / (decoding + passing),
            "ratio_without_decoding": running / passing,
        }
        r = results[method]
        print(
            f"{method:12s} {r['equal']} of {r['compared']} runs equal, {r['steps']} steps; profile {passing:.1f} s "
            f"after {decoding:.1f} s of plain decoding, brute force {running:.1f} s: {r['ratio']:.1f} times as long",
            flush=True,
        )
    if options.json:
        report = {
            **{
                name: getattr(options, name)
                for name in ("target", "draft_model", "eagle3", "max_tokens", "longest", "threads")
            },
            "gammas": list(gammas),
            "prompts": len(answered),
            "response_tokens": sum(len(t.response) for t in answered),
            "plain_decoding_seconds": decoding,
            "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
            "versions": {"torch": torch.__version__},
            "results": results,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _prompts() -> list[Prompt]:
    """The first of every workload file, the second of every one, and so on."""
    files = [load_workload(path).prompts for path in sorted(WORKLOADS.glob("*.jsonl"))]
    return [prompt for prompt in chain(*zip_longest(*files)) if prompt is not None]


def _profiled(profiler: Profiler, answered: Sequence[Transcript], gammas: Sequence[int]) -> dict[int, dict[str, Steps]]:
    found: dict[int, dict[str, Steps]] = {gamma: {} for gamma in gammas}
    for transcript in answered:
        table = profiler.table(transcript, max(gammas))
        for gamma in gammas:
            s = walk(table, transcript, gamma)
            found[gamma][transcript.id] = list(
                zip(s.drafted.tolist(), s.accepted.tolist(), s.emitted.tolist(), strict=True)
            )
    return found


def _run(
    target: Path, method: str, gamma: int, drafter: Path | None, answered: Sequence[Transcript]
) -> dict[str, tuple[list[int], Steps]]:
    """The tokens and steps of a speculative run, one request at a time."""
    longest = max(len(t.prompt) + (t.max_tokens or 0) for t in answered)
    engine: Engine = load_engine(
        target, method=method, gamma=gamma, drafter=drafter, dtype="float32", max_batch_size=1, max_model_len=longest
    )
    found = {}
    for transcript in answered:
        params = SamplingParams(temperature=0.0, max_tokens=transcript.max_tokens or 0)
        engine.add(Request(transcript.id, transcript.prompt, params))
        emitted: list[int] = []
        steps: Steps = []
        while engine.has_work:
            for output in engine.step():
                emitted += output.token_ids
                if not output.first:
                    steps.append((output.drafted, output.accepted, len(output.token_ids)))
        found[transcript.id] = emitted, steps
    return found


def _compare(
    profiled: dict[int, dict[str, Steps]], brute: dict[int, dict[str, tuple[list[int], Steps]]]
) -> dict[str, Any]:
    runs = [(gamma, id) for gamma in profiled for id in profiled[gamma]]
    differing = [f"{id}, gamma {gamma}" for gamma, id in runs if profiled[gamma][id] != brute[gamma][id][1]]
    by_gamma = {
        gamma: 1 + sum(accepted for steps in found.values() for _, accepted, _ in steps) / sum(map(len, found.values()))
        for gamma, found in profiled.items()
    }
    return {
        "compared": len(runs),
        "equal": len(runs) - len(differing),
        "differing": differing,
        "steps": sum(len(steps) for found in profiled.values() for steps in found.values()),
        "mean_acceptance_length": by_gamma,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="demo", help="demo, or a Hugging Face directory")
    parser.add_argument("--draft-model", default="demo-reduced", help="demo, demo-reduced, or a directory")
    parser.add_argument("--eagle3", default="demo", help="demo, or a directory")
    parser.add_argument("--prompts", type=int, default=42)
    parser.add_argument("--longest", type=int, default=200, help="tokens of a prompt: every run reads all of them anew")
    parser.add_argument("--gamma", type=int, default=8, help="the greatest; all from 1 on are run")
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="write the results here too")
    return parser


if __name__ == "__main__":
    main()
