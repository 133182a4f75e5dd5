"""Layer skipping, prepared drafts and a draft model of another vocabulary, on the demo target on this CPU.

    python benchmarks/other_drafts.py [--prompts 8] [--max-tokens 96] [--threads 2] [--json FILE]

One request at a time, greedy, float32. Every arm decodes the same prompts of three workloads; answers that end in a
loop are left out of tokens per step. Seconds are the engine's own, of this process: those of `ssd` are of one device,
where preparing drafts takes time that it would save on two (`second_device_gain` is modelled). The draft model of
another vocabulary is the demo's own with its tokens numbered backwards, so that what translation loses can be seen.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from draft_trees import LONGEST, encoded_prompts
from transformers import AutoModelForCausalLM

from specbench.analysis.degenerate import ends_in_loop
from specbench.analysis.prepared import prepared_figures
from specbench.backends.reference import counters_between
from specbench.decoder.drafters.layer_skip import LayerSkip
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.metrics import exposition
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.drafter import resolve_drafter
from specbench.sweep.manifest import describe_hardware
from specbench.target import resolve_target
from specbench.telemetry.prometheus import parse

ARMS = (
    ("none", 0),
    ("draft_model", 3),
    ("another vocabulary", 3),
    *(("ssd", gamma) for gamma in (1, 3, 5)),
    *(("layer_skip", gamma) for gamma in (1, 3)),
)


@dataclass(frozen=True)
class Result:
    """accepted: share of the drafted tokens · step_ms: of a verification pass and what goes with it, by phase ·
    skipped, agreement, trials: what the search for sublayers came to
    """

    method: str
    gamma: int
    prompts: int
    loops: int
    tokens_per_step: float
    accepted: float | None
    step_ms: dict[str, float]
    ready_draft_rate: float | None = None
    second_device_gain: float | None = None
    skipped: int | None = None
    agreement: float | None = None
    trials: int | None = None


def measure(method: str, gamma: int, prompts: list[list[int]], max_tokens: int, renumbered: Path) -> Result:
    foreign = method == "another vocabulary"
    name = "draft_model" if foreign else method
    drafter = renumbered if foreign else resolve_drafter(name, "demo") if name in ("draft_model", "ssd") else None
    engine = load_engine(
        resolve_target("demo"), method=name, gamma=gamma, drafter=drafter, dtype="float32", max_batch_size=1,
        max_model_len=LONGEST,
    )  # fmt: skip
    before = parse(exposition(engine))
    answers: list[list[int]] = [[] for _ in prompts]
    steps = [[0, 0] for _ in prompts]
    for index, ids in enumerate(prompts):
        engine.add(Request(str(index), ids, SamplingParams(0.0, seed=index, max_tokens=max_tokens)))
    while engine.has_work:
        for output in engine.step():
            index = int(output.request_id)
            answers[index] += output.token_ids
            if not output.first:
                steps[index] = [steps[index][0] + 1, steps[index][1] + output.accepted]
    counted = counters_between(before, parse(exposition(engine)))
    assert counted is not None
    sound = [s for s, answer in zip(steps, answers, strict=True) if not ends_in_loop(answer)]
    passes, phases = counted.passes or 1, counted.phase_seconds or {}
    return Result(
        method=method,
        gamma=gamma,
        prompts=len(prompts),
        loops=len(prompts) - len(sound),
        tokens_per_step=1 + sum(kept for _, kept in sound) / max(1, sum(n for n, _ in sound)),
        accepted=engine.counters.accepted / engine.counters.drafted if gamma else None,
        step_ms={phase: seconds / passes * 1e3 for phase, seconds in phases.items() if phase != "prefill"},
        **prepared_figures([counted]),
        **searched(engine),
    )


def searched(engine: Engine) -> dict[str, float]:
    if not isinstance(engine.drafter, LayerSkip):
        return {}
    search = engine.drafter.search
    return {"skipped": len(search.best), "agreement": search.agreement, "trials": search.trials}


def renumber(source: Path, place: Path) -> Path:
    """The same model with its tokens numbered backwards."""
    shutil.copytree(source, place)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    for weight in {
        id(w): w for w in (model.get_input_embeddings().weight, model.get_output_embeddings().weight)
    }.values():
        weight.data = weight.data.flip(0)
    model.save_pretrained(place)
    path = place / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    last = model.config.vocab_size - 1
    tokenizer["model"]["vocab"] = {token: last - number for token, number in tokenizer["model"]["vocab"].items()}
    for added in tokenizer["added_tokens"]:
        added["id"] = last - added["id"]
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=8, help="of each workload")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="write the results here too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    prompts = encoded_prompts(options.prompts, options.max_tokens)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        renumbered = renumber(resolve_drafter("draft_model", "demo"), Path(folder) / "renumbered")
        for method, gamma in ARMS:
            results.append(r := measure(method, gamma, prompts, options.max_tokens, renumbered))
            print(json.dumps(asdict(r)), flush=True)
    if options.json:
        report = {
            "machine": describe_hardware()["kind"],
            "max_tokens": options.max_tokens,
            "threads": options.threads,
            "results": [asdict(r) for r in results],
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
