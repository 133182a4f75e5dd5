"""The reference decoder against transformers: the same model, drafts, dtype, gamma and prompts, in one interleaved run.

    python benchmarks/decoder_vs_transformers.py [--dtype float32,bfloat16] [--target DIR] [--drafter DIR] [--json FILE]

Three pairs: plain decoding; prompt lookup, both of the last two tokens or else the last one, which is transformers'
default and not ours (4 to 2); a draft model (theirs: `assistant_model` with a constant number of tokens and no
confidence threshold). All greedy at batch 1.
A ratio is the median, over rounds, of transformers' time per token divided by ours in the same round. Where the outputs
differ (float32 rounds differently in other kernels) it is said for how many prompts.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from specbench.decoder.drafters.ngram import NgramDrafter
from specbench.decoder.engine import Engine
from specbench.decoder.load import DTYPES, load_engine
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.drafter import resolve_drafter
from specbench.target import resolve_target

PROMPTS = (
    "List the months of the year with their number of days, as JSON.",
    "Write a Python function that returns the n-th Fibonacci number, and explain it.",
    "Repeat this list three times: apple, banana, cherry, date, elderberry, fig.",
    "Why is the sky blue? Answer in three short sentences.",
)

Decode = Callable[[list[int]], list[int]]
"""From a prompt to its output, both token ids."""


@dataclass(frozen=True)
class Result:
    """One pair: seconds per output token (median over rounds), their ratio, and the mean acceptance length of ours."""

    dtype: str
    pair: str
    ours: float
    transformers: float
    ratio: float
    mean_acceptance_length: float
    differing_prompts: int


def main() -> None:
    options = _parser().parse_args()
    target, drafter = resolve_target(options.target), resolve_drafter("draft_model", options.drafter)
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    tokenizer = AutoTokenizer.from_pretrained(target)
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        for text in PROMPTS
    ]
    results = []
    for dtype in options.dtype.split(","):
        for pair, arms in _pairs(options, dtype, target, drafter).items():
            r = _race(dtype, pair, *arms, prompts, options.rounds)
            results.append(r)
            print(
                f"{r.dtype:9s} {r.pair:15s} ours {1e3 * r.ours:6.1f} ms/token   transformers "
                f"{1e3 * r.transformers:6.1f} ms/token   ratio {r.ratio:.2f}   acceptance length "
                f"{r.mean_acceptance_length:.2f}   outputs differ in {r.differing_prompts} of {len(prompts)} prompts",
                flush=True,
            )
    if options.json:
        report = {
            **{
                name: getattr(options, name)
                for name in ("target", "drafter", "gamma", "max_tokens", "rounds", "threads")
            },
            "prompts": len(prompts),
            "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
            "results": [asdict(r) for r in results],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _pairs(
    options: argparse.Namespace, dtype: str, target_directory: Path, drafter: Path
) -> dict[str, tuple[Engine, Decode]]:
    """Per pair: our engine, and transformers' way of doing the same."""
    target, assistant = (
        AutoModelForCausalLM.from_pretrained(directory, dtype=DTYPES[dtype]).eval()
        for directory in (target_directory, drafter)
    )
    assistant.generation_config.num_assistant_tokens = options.gamma
    assistant.generation_config.num_assistant_tokens_schedule = "constant"
    assistant.generation_config.assistant_confidence_threshold = 0.0

    def ours(method: str, drafter: Path | None = None) -> Engine:
        return load_engine(
            target_directory,
            method=method,
            gamma=0 if method == "none" else options.gamma,
            drafter=drafter,
            dtype=dtype,
            max_batch_size=1,
            max_model_len=1024,
        )

    lookup = ours("ngram")
    lookup.drafter = NgramDrafter(min_n=1, max_n=2)

    def theirs(**settings: Any) -> Decode:
        @torch.inference_mode()
        def decode(prompt: list[int]) -> list[int]:
            ids = torch.tensor([prompt])
            output = target.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=options.max_tokens,
                # Every output has the same length, however the two round.
                eos_token_id=None,
                pad_token_id=0,
                **settings,
            )
            tokens: list[int] = output[0, len(prompt) :].tolist()
            assert len(tokens) == options.max_tokens
            return tokens

        return decode

    return {
        "plain": (ours("none"), theirs()),
        "prompt lookup": (lookup, theirs(prompt_lookup_num_tokens=options.gamma, max_matching_ngram_size=2)),
        "draft model": (ours("draft_model", drafter), theirs(assistant_model=assistant)),
    }


def _race(dtype: str, pair: str, engine: Engine, theirs: Decode, prompts: list[list[int]], rounds: int) -> Result:
    """All prompts with one and then the other, in turns, after a round that is not counted."""
    max_tokens = len(theirs(prompts[0]))
    params = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)

    def ours(prompt: list[int]) -> list[int]:
        engine.add(Request("", prompt, params))
        tokens: list[int] = []
        while engine.has_work:
            for output in engine.step():
                tokens += output.token_ids
        return tokens

    differing = sum(ours(prompt) != theirs(prompt) for prompt in prompts)
    times = []
    for _ in range(rounds):
        times.append([_seconds(decode, prompts) / (max_tokens * len(prompts)) for decode in (ours, theirs)])
    counters = engine.counters
    return Result(
        dtype,
        pair,
        ours=statistics.median(a for a, _ in times),
        transformers=statistics.median(b for _, b in times),
        ratio=statistics.median(b / a for a, b in times),
        mean_acceptance_length=1 + counters.accepted / counters.steps,
        differing_prompts=differing,
    )


def _seconds(decode: Decode, prompts: list[list[int]]) -> float:
    begun = time.perf_counter()
    for prompt in prompts:
        decode(prompt)
    return time.perf_counter() - begun


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="demo", help="demo, or a Hugging Face directory")
    parser.add_argument("--drafter", default="demo", help="demo, or the directory of a draft model")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16 or both")
    parser.add_argument("--gamma", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="write the results here too")
    return parser


if __name__ == "__main__":
    main()
