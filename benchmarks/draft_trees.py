"""Tokens per step of chains and trees, and of the ways of verifying sampled drafts, on the demo target.

    python benchmarks/draft_trees.py [--prompts 12] [--max-tokens 64] [--json FILE]

Every arm decodes the same prompts of three workloads with the demo's drafters in float32, eight at a time. Answers that
end in a loop, which accepts anything, are left out; which ones these are differs between sampled arms. Intervals are
bootstraps over prompts. Tokens per step say nothing of time: `nodes` is what a step verifies besides the newest token.
"""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from specbench.analysis.degenerate import ends_in_loop
from specbench.decoder.load import load_engine
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.decoder.tree_shape import CHAIN, parse_tree
from specbench.decoder.verifier import Verification
from specbench.drafter import resolve_drafter
from specbench.target import resolve_target
from specbench.train.chat import ChatFormat
from specbench.workloads.load import load_workload

WORKLOADS = Path(__file__).parents[1] / "workloads"
GAMMA, ROWS, LONGEST = 5, 8, 1024


@dataclass(frozen=True)
class Arm:
    """temperature: 0 or that of the sampled arms"""

    method: str
    tree: str = CHAIN
    temperature: float = 0.0
    verification: Verification = "rejection"


ARMS = (
    *(Arm("eagle3", tree) for tree in (CHAIN, "4x16", "8x32", "8x60", "static:4x2x1x1x1", "static:2x2x2x2x1")),
    *(Arm("eagle3", CHAIN, 0.8, verification) for verification in ("rejection", "block", "coupled", "typical")),
    *(Arm("eagle3", "8x60", 0.8, verification) for verification in ("rejection", "typical")),
    *(Arm("draft_model", CHAIN, 0.8, verification) for verification in ("rejection", "block", "coupled", "typical")),
)


@dataclass(frozen=True)
class Result:
    """tokens_per_step: the target's own included, with its 95 % interval low..high · nodes: drafted per step, the most
    prompts, loops: decoded, and those of them that ended in a loop
    """

    method: str
    tree: str
    temperature: float
    verification: str
    nodes: int
    prompts: int
    loops: int
    tokens_per_step: float
    low: float
    high: float


def main() -> None:
    options = _parser().parse_args()
    torch.set_num_threads(options.threads)
    prompts = encoded_prompts(options.prompts, options.max_tokens)
    results = []
    for arm in ARMS:
        results.append(r := _measure(arm, prompts, options.max_tokens))
        print(
            f"{r.method:12s} {r.tree:18s} T={r.temperature:<4g} {r.verification:10s} {r.nodes:3d} nodes   "
            f"{r.tokens_per_step:.3f} [{r.low:.3f}, {r.high:.3f}] tokens per step   {r.loops} of {r.prompts} loops",
            flush=True,
        )
    if options.json:
        report = {
            "gamma": GAMMA,
            "max_tokens": options.max_tokens,
            "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
            "versions": {"torch": torch.__version__},
            "results": [asdict(r) for r in results],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def encoded_prompts(count: int, max_tokens: int) -> list[list[int]]:
    """The first `count` of three workloads, as the demo target reads them, that fit with their answers."""
    chat = ChatFormat.from_directory(resolve_target("demo"))
    prompts = [
        chat.encode(prompt)
        for name in ("chat", "code", "structured")
        for prompt in load_workload(WORKLOADS / f"{name}.jsonl").prompts[:count]
    ]
    return [ids for ids in prompts if len(ids) + max_tokens <= LONGEST]


def _measure(arm: Arm, prompts: list[list[int]], max_tokens: int) -> Result:
    shape = parse_tree(arm.tree)
    engine = load_engine(
        resolve_target("demo"),
        method=arm.method,
        gamma=GAMMA,
        drafter=resolve_drafter(arm.method, "demo"),
        dtype="float32",
        max_batch_size=ROWS,
        max_model_len=LONGEST,
        verification=arm.verification,
        tree=shape,
    )
    answers: list[list[int]] = [[] for _ in prompts]
    steps = np.zeros((len(prompts), 2))  # verification passes, tokens kept
    for index, ids in enumerate(prompts):
        engine.add(Request(str(index), ids, SamplingParams(arm.temperature, seed=index, max_tokens=max_tokens)))
    while engine.has_work:
        for output in engine.step():
            index = int(output.request_id)
            answers[index] += output.token_ids
            if not output.first:
                steps[index] += (1, output.accepted)
    sound = steps[[not ends_in_loop(answer) for answer in answers]]
    drawn = np.random.default_rng(0).integers(0, len(sound), (2000, len(sound)))
    sums = sound[drawn].sum(1)
    low, high = np.quantile(1 + sums[:, 1] / sums[:, 0], (0.025, 0.975))
    return Result(
        **asdict(arm),
        nodes=GAMMA if shape is None else getattr(shape, "nodes", shape.width(GAMMA)),
        prompts=len(prompts),
        loops=len(prompts) - len(sound),
        tokens_per_step=1 + sound[:, 1].sum() / sound[:, 0].sum(),
        low=float(low),
        high=float(high),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=12, help="of each workload")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="write the results here too")
    return parser


if __name__ == "__main__":
    main()
