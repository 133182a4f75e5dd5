"""A profile from where its transcripts are: logs, a run, or prompts that a model answers now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.profile.base import Profiler
from specbench.profile.encoders import load_encoder
from specbench.profile.logs import LogFile, batch_prompts, run_transcripts
from specbench.profile.lookups import LOOKUPS, NgramProfiler, SuffixProfiler
from specbench.profile.offsets import Transcript
from specbench.profile.profile import profile
from specbench.profile.step_cost import FREE, Cost

Progress = Callable[[str], None]
"""Gets a sentence before each long step."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is profiled, wherever the transcripts are from.

    costs: of a drafted token, for methods where it is known · cached_requests: earlier responses that suffix decoding
    may draft from · keep_loops: count responses that end in a loop as well
    """

    methods: tuple[str, ...]
    gammas: tuple[int, ...]
    costs: Mapping[str, Cost] = field(default_factory=dict)
    cached_requests: int = 0
    keep_loops: bool = False

    def lookup(self, method: str) -> Profiler:
        return NgramProfiler() if method == "ngram" else SuffixProfiler(self.cached_requests)


def profile_logs(
    path: Path, asked: Asked, tokenizer: str, batch_input: Path | None, skip_bad_lines: bool, progress: Progress
) -> dict[str, Any]:
    """Profile a log file, or what plain decoding answered in a run. Raises SpecbenchError for what can't be read."""
    if needing := [method for method in asked.methods if method not in LOOKUPS]:
        raise SpecbenchError(
            f"logs alone profile {' and '.join(LOOKUPS)}; {needing[0]} needs its weights: give --workload and --target."
        )
    profilers = [asked.lookup(method) for method in asked.methods]
    if path.is_dir():
        from specbench.store.run import RunStore

        run = RunStore.open(path)
        said = {"source": str(path), "unit": "tokens", "simulated": run.is_simulated}
        return _report(run_transcripts(run), profilers, asked, {}, said)
    encoder = load_encoder(tokenizer, progress)
    log = LogFile(path, encoder, skip_bad_lines, batch_prompts(batch_input) if batch_input else {})
    report = _report(log, profilers, asked, {}, {"source": str(path), "unit": encoder.unit, "tokenizer": encoder.name})
    if log.in_ids == report["requests"]:
        report |= {"unit": "tokens", "tokenizer": None}
    return {**report, "skipped": log.skipped, "promptless": log.promptless}


def profile_workload(
    files: Sequence[Path],
    asked: Asked,
    target: str,
    drafters: Mapping[str, str],
    max_tokens: int,
    engine_settings: Mapping[str, Any],
    progress: Progress,
) -> dict[str, Any]:
    """Let the target answer the prompts of workload files by plain greedy decoding, then profile what it said.

    drafters: name of the weights, by method · engine_settings: as `decode.load_target` takes them
    """
    from specbench.drafter import resolve_drafter
    from specbench.profile import decode
    from specbench.target import resolve_target
    from specbench.workloads import load_workload
    from specbench.workloads.stats import tokens

    for method in asked.methods:
        if method not in decode.METHODS:
            raise SpecbenchError(f"method {method} cannot be profiled. Choose from: {', '.join(decode.METHODS)}.")
        if method not in LOOKUPS and method not in drafters:
            raise SpecbenchError(f"method {method} needs a drafter: --drafter {method}=DIRECTORY.")
    prompts = [prompt for file in files for prompt in load_workload(file).prompts]
    directory = resolve_target(target, progress)
    weights = {m: resolve_drafter(m, drafters[m], progress) for m in asked.methods if m not in LOOKUPS}
    engine = decode.load_target(directory, **engine_settings)
    profilers: list[Profiler] = []
    costs: dict[str, Cost] = {}
    for method in asked.methods:
        if method in LOOKUPS:
            profilers.append(asked.lookup(method))
        else:
            profiler, costs[method] = decode.load_profiler(method, engine, directory, weights[method])
            profilers.append(profiler)
    progress(f"{target} answers {len(prompts)} prompts.")
    answered = decode.answer(engine, prompts, tokens(directory), max_tokens)
    report = _report(answered, profilers, asked, costs, {"source": ", ".join(map(str, files)), "unit": "tokens"})
    return {**report, "target": target, "drafters": dict(drafters), "too_long": len(prompts) - report["requests"]}


def _report(
    transcripts: Iterable[Transcript],
    profilers: Sequence[Profiler],
    asked: Asked,
    estimated: Mapping[str, Cost],
    said: Mapping[str, Any],
) -> dict[str, Any]:
    costs = {method: asked.costs.get(method) or estimated.get(method, FREE) for method in asked.methods}
    begun = time.perf_counter()
    found = profile(transcripts, profilers, asked.gammas, costs, asked.keep_loops)
    if not found.requests:
        raise SpecbenchError(f"{said['source']} holds no response to profile.")
    return {
        **said,
        "simulated": said.get("simulated", False) or any(cost.simulated for cost in costs.values()),
        "keep_loops": asked.keep_loops,
        "suffix_cached_requests": asked.cached_requests,
        "seconds": time.perf_counter() - begun,
        **found.as_dict(),
    }
