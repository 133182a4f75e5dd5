"""Our client against vLLM's own (`vllm bench serve`), in turns on one running vLLM server with the same prompts.

    python benchmarks/client_vs_vllm_bench.py [--method ngram] [--batch-size 4] [--rounds 4] [--json FILE]

Both keep the same number of greedy completions in flight, in the same order. Compared are output tokens per second over
the whole run, mean TTFT, mean TPOT, and mean ITL by the rule "chunk" (one gap per streamed chunk), which is vLLM's.
Each is shown as mean ± standard deviation over rounds; the two agree where 0 lies in the 95% interval (Welch) of their
difference. Needs `specbench backend install vllm --cpu --with bench` (or --device cuda and the GPU build).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory

import numpy as np
from scipy.stats import ttest_ind
from transformers import AutoTokenizer

from specbench.backends.base import EngineOptions, Launch
from specbench.backends.environments import engine_python
from specbench.backends.process import run_server
from specbench.backends.vllm import VllmBackend
from specbench.replay.client import StreamingClient
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.records import ReplayRun
from specbench.replay.request import RequestSpec
from specbench.replay.timeline import itl, tpot, ttft
from specbench.speculation import BASELINE, Speculation
from specbench.target import resolve_target
from specbench.workloads import load_workload

WORKLOADS = Path(__file__).parents[1] / "workloads"
FIGURES = {"output_throughput": "tokens/s", "mean_ttft_ms": "ms", "mean_tpot_ms": "ms", "mean_itl_ms": "ms"}
"""vLLM's names of what is compared -> unit."""

Figures = Mapping[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description="Our client against `vllm bench serve` on one server.")
    parser.add_argument("--target", default="demo")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--method", default="ngram", choices=("none", "ngram"))
    parser.add_argument("--gamma", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json", type=Path, help="Write the figures of every round there.")
    arguments = parser.parse_args()
    ours, theirs = asyncio.run(measure(arguments))
    for name, unit in FIGURES.items():
        print(line(name, unit, [f[name] for f in ours], [f[name] for f in theirs]))
    if arguments.json:
        options = {k: str(v) for k, v in vars(arguments).items() if k != "json"}
        arguments.json.write_text(json.dumps({"options": options, "ours": ours, "vllm": theirs}, indent=2) + "\n")


async def measure(arguments: argparse.Namespace) -> tuple[list[Figures], list[Figures]]:
    """Figures of each round by our client and by vLLM's; which of them goes first alternates."""
    target, python = resolve_target(arguments.target), engine_python("vllm", arguments.device)
    if subprocess.run([python, "-c", "import pandas"], stderr=subprocess.DEVNULL).returncode:
        sys.exit("vLLM's client reads its prompts with pandas: specbench backend install vllm --cpu --with bench")
    launch = Launch(
        target=target,
        target_name="target",
        speculation=BASELINE if arguments.method == "none" else Speculation(arguments.method, arguments.gamma),
        max_batch_size=arguments.batch_size,
        device=arguments.device,
        dtype="float32" if arguments.device == "cpu" else "bfloat16",
        options=EngineOptions(python=python),
    )
    prompts = rendered(target, arguments.prompts)
    ours: list[Figures] = []
    theirs: list[Figures] = []
    with TemporaryDirectory() as folder:
        dataset, log = Path(folder, "prompts.jsonl"), Path(folder, "logs", "server.log")
        dataset.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
        log.parent.mkdir()
        async with run_server(VllmBackend().command(launch), log, explain=VllmBackend().explain) as server:
            await by_us(server.base_url, prompts, arguments)  # warm-up, for both
            for number in range(arguments.rounds):
                for turn in ("ours", "theirs")[:: 1 if number % 2 == 0 else -1]:
                    if turn == "ours":
                        ours.append(await by_us(server.base_url, prompts, arguments))
                    else:
                        theirs.append(await by_vllm(python, server.base_url, target, dataset, arguments))
                print(f"round {number + 1} of {arguments.rounds} done", file=sys.stderr)
    return ours, theirs


def rendered(target: Path, count: int) -> list[str]:
    """Prompts of two workloads in turns, as plain text with the chat template applied: both clients send the same."""
    tokenizer = AutoTokenizer.from_pretrained(target, local_files_only=True)
    loaded = [load_workload(WORKLOADS / f"{name}.jsonl").prompts for name in ("structured", "chat")]
    prompts = [prompt for pair in zip(*loaded, strict=False) for prompt in pair][:count]
    return [
        prompt.prompt
        or tokenizer.apply_chat_template(list(prompt.messages or ()), add_generation_prompt=True, tokenize=False)
        for prompt in prompts
    ]


async def by_us(base_url: str, prompts: Sequence[str], arguments: argparse.Namespace) -> Figures:
    requests = [
        RequestSpec(index=i, prompt_id=str(i), prompt=prompt, max_tokens=arguments.max_tokens)
        for i, prompt in enumerate(prompts)
    ]
    async with StreamingClient(base_url, "target") as client:
        return figures(await run_closed_loop(client, requests, arguments.batch_size))


def figures(run: ReplayRun) -> Figures:
    """vLLM's definitions, from our traces. Its TTFT begins when the request is sent."""
    traces = run.traces
    assert not any(trace.error for trace in traces), next(trace.error for trace in traces if trace.error)
    tpots = [value for trace in traces if (value := tpot(trace)) is not None]
    return {
        "output_throughput": sum(trace.output_tokens for trace in traces) / (run.finished - run.started),
        "mean_ttft_ms": 1e3 * fmean((ttft(trace) or 0.0) - (trace.sent - trace.scheduled) for trace in traces),
        "mean_tpot_ms": 1e3 * fmean(tpots),
        "mean_itl_ms": 1e3 * float(np.concatenate([itl(trace, "chunk") for trace in traces]).mean()),
    }


async def by_vllm(python: Path, base_url: str, target: Path, dataset: Path, arguments: argparse.Namespace) -> Figures:
    result = dataset.with_name("result.json")
    await asyncio.to_thread(
        subprocess.run,
        [
            *(str(python), "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai"),
            *("--base-url", base_url, "--model", str(target), "--served-model-name", "target"),
            *("--dataset-name", "custom", "--dataset-path", str(dataset), "--disable-shuffle", "--skip-chat-template"),
            *("--num-prompts", str(arguments.prompts), "--custom-output-len", str(arguments.max_tokens)),
            *("--max-concurrency", str(arguments.batch_size), "--temperature", "0", "--disable-tqdm"),
            *("--save-result", "--result-dir", str(result.parent), "--result-filename", result.name),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    found = json.loads(result.read_text())
    assert found["completed"] == arguments.prompts
    return {name: float(found[name]) for name in FIGURES}


def line(name: str, unit: str, ours: Sequence[float], theirs: Sequence[float]) -> str:
    interval = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    verdict = "agree" if interval.low <= 0 <= interval.high else "DIFFER"
    return (
        f"{name:18} ours {fmean(ours):8.2f} ± {stdev(ours):5.2f}   vllm {fmean(theirs):8.2f} ± {stdev(theirs):5.2f} "
        f"{unit:8}   ratio {fmean(ours) / fmean(theirs):.3f}   {verdict}"
    )


if __name__ == "__main__":
    main()
