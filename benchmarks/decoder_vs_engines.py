"""The reference decoder against real vLLM and llama.cpp on this CPU: same model, prompts and precision, in one run.

    python benchmarks/decoder_vs_engines.py [--rounds 2] [--engine vllm,llama.cpp] [--batch-size 1,4,8] [--json FILE]

Both sides are servers, driven by the same client in a closed loop of greedy completions. In each round every pair is
started one after the other, which first changes from round to round. A ratio is ours over theirs in output tokens per
second within a round; the median over rounds is shown, with the lowest and the highest. vLLM: float32. llama.cpp: the
published Q4_1 file against our 4-bit weights, at batch 1. Needs `specbench backend install` of both with --cpu.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from client_vs_vllm_bench import rendered

from specbench.backends.base import Command, EngineOptions, Launch
from specbench.backends.environments import engine_python
from specbench.backends.process import run_server
from specbench.backends.reference import ReferenceBackend
from specbench.backends.vllm import VllmBackend
from specbench.cache import cache_dir
from specbench.demo.fetch import MEMBER, fetch_gguf
from specbench.drafter import resolve_drafter
from specbench.replay.client import StreamingClient
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.dialect import LLAMA_CPP, VLLM, Dialect
from specbench.replay.request import RequestSpec
from specbench.speculation import BASELINE, Speculation
from specbench.sweep.manifest import describe_hardware
from specbench.target import resolve_target

GAMMA = 4


@dataclass(frozen=True)
class Pair:
    """Two servers that do the same."""

    engine: str
    method: str
    batch_sizes: tuple[int, ...]
    ours: Command
    theirs: Command
    dialect: Dialect


@dataclass(frozen=True)
class Ratio:
    """Output tokens per second, by round."""

    engine: str
    method: str
    batch_size: int
    ours: list[float]
    theirs: list[float]

    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.ours, self.theirs, strict=True)]


def vllm_pairs(batch_sizes: tuple[int, ...]) -> list[Pair]:
    launch = Launch(
        target=resolve_target("demo"),
        target_name="target",
        max_batch_size=max(batch_sizes),
        options=EngineOptions(python=engine_python("vllm", "cpu"), kv_cache_bytes=2 << 30),
    )
    drafts = [BASELINE, Speculation("ngram", GAMMA)] + [
        Speculation(method, GAMMA, str(resolve_drafter(method, "demo"))) for method in ("draft_model", "eagle3")
    ]
    return [
        Pair("vLLM, float32", each.speculation.method, batch_sizes, ReferenceBackend().command(each),
             VllmBackend().command(each), VLLM)
        for each in (replace(launch, speculation=draft) for draft in drafts)
    ]  # fmt: skip


def llama_cpp_pairs() -> list[Pair]:
    folder = cache_dir() / "demo" / "gguf"
    gguf = folder / Path(MEMBER).name
    if not gguf.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetch_gguf(folder)
    program = (sys.executable, "-m", "specbench.backends.attach.llama_cpp_server", "--port", "{port}")
    options = ("--model", str(gguf), "--served-model-name", "target", "--max-batch-size", "1", "--threads", "2")
    launch = Launch(
        target=resolve_target("demo"),
        target_name="target",
        dtype="bfloat16",
        options=EngineOptions(quantization="int4"),
    )
    return [
        Pair("llama.cpp, 4 bits", draft.method, (1,), ReferenceBackend().command(replace(launch, speculation=draft)),
             Command((*program, *options, "--method", draft.method, "--gamma", str(GAMMA)), nice=5), LLAMA_CPP)
        for draft in (BASELINE, Speculation("ngram", GAMMA))
    ]  # fmt: skip


async def rates(
    command: Command, dialect: Dialect, batch_sizes: Sequence[int], prompts: Sequence[str], max_tokens: int
) -> list[float]:
    """Output tokens per second at each batch size, after a warm-up at the largest."""
    requests = [
        RequestSpec(index=i, prompt_id=str(i), prompt=prompt, max_tokens=max_tokens) for i, prompt in enumerate(prompts)
    ]
    found = []
    with TemporaryDirectory() as folder:
        log = Path(folder, "logs", "server.log")
        log.parent.mkdir()
        async with (
            run_server(command, log) as server,
            StreamingClient(server.base_url, "target", dialect=dialect) as client,
        ):
            await run_closed_loop(client, requests, max(batch_sizes))
            for batch_size in batch_sizes:
                run = await run_closed_loop(client, requests, batch_size)
                if errors := [trace.error for trace in run.traces if trace.error]:
                    sys.exit(f"a request failed: {errors[0]}")
                found.append(sum(trace.output_tokens for trace in run.traces) / (run.finished - run.started))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="The reference decoder against real engines on this CPU.")
    parser.add_argument("--engine", default="vllm,llama.cpp")
    parser.add_argument("--batch-size", default="1,4,8", help="against vLLM")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the result there")
    options = parser.parse_args()
    engines = options.engine.split(",")
    pairs = vllm_pairs(tuple(map(int, options.batch_size.split(",")))) if "vllm" in engines else []
    pairs += llama_cpp_pairs() if "llama.cpp" in engines else []
    prompts = rendered(resolve_target("demo"), options.prompts)
    found = {
        (pair.engine, pair.method, b): Ratio(pair.engine, pair.method, b, [], [])
        for pair in pairs
        for b in pair.batch_sizes
    }
    for number in range(options.rounds):
        for pair in pairs:
            sides = [("ours", pair.ours, VLLM), ("theirs", pair.theirs, pair.dialect)]
            for side, command, dialect in sides if number % 2 == 0 else reversed(sides):
                measured = asyncio.run(rates(command, dialect, pair.batch_sizes, prompts, options.max_tokens))
                for batch_size, rate in zip(pair.batch_sizes, measured, strict=True):
                    getattr(found[pair.engine, pair.method, batch_size], side).append(rate)
    for ratio in found.values():
        low, high = min(ratio.ratios()), max(ratio.ratios())
        name = f"{ratio.engine:18} {ratio.method:12} batch {ratio.batch_size}"
        rates_shown = f"ours {median(ratio.ours):6.1f} tok/s  theirs {median(ratio.theirs):6.1f}"
        print(f"{name}  {rates_shown}  ratio {median(ratio.ratios()):.2f} ({low:.2f}..{high:.2f})")
    if options.json:
        settings = {
            "gamma": GAMMA,
            "prompts": options.prompts,
            "max_tokens": options.max_tokens,
            "rounds": options.rounds,
        }
        result = {"machine": describe_hardware()["kind"], **settings, "results": [asdict(r) for r in found.values()]}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
