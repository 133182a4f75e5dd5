"""How many tokens of logs one core profiles in a minute, beside the same rules without an index.

    python benchmarks/profile_throughput.py [--tokens 400000] [--plain-tokens 20000] [--json FILE]

The log is made here, from a fixed seed: responses of --length tokens to prompts as long, of which a part is copied from
what stands before, as answers do. Timed is all that `specbench profile --logs` does with token ids: tables of every
gamma from 1 to 8, walks, tallies, the oracle. The opponent has no index that grows: for n-grams it is vLLM's rule as a
search through the text, for suffix decoding a new tree, at every position. It reads the first --plain-tokens of the
same log, and its drafts are compared with ours. Times are of the processor (`time.process_time`).
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from specbench.decoder.lookup import NgramIndex
from specbench.decoder.suffix import SuffixIndex, SuffixRule
from specbench.profile.lookups import NgramProfiler, SuffixProfiler
from specbench.profile.offsets import Transcript
from specbench.profile.profile import profile
from specbench.profile.step_cost import FREE

GAMMAS = tuple(range(1, 9))
VOCABULARY = 32000


def main() -> None:
    options = _parser().parse_args()
    log = list(transcripts(options.tokens, options.length))
    short = list(transcripts(options.plain_tokens, options.length))
    results = {
        "ngram": _compare(log, short, NgramProfiler, _indexed_ngrams, _searched_ngrams),
        "suffix": _compare(log, short, SuffixProfiler, _indexed_suffixes, _searched_suffixes),
    }
    for method, r in results.items():
        print(
            f"{method:7s} {r['tokens_per_minute']:12,.0f} response tokens a minute and core; drafts alone "
            f"{r['drafts_per_second']:,.0f} a second, {r['ratio']:.0f} times the plain rule's; same drafts: "
            f"{r['same_drafts']}; {r['mean_acceptance_length']:.2f} tokens per step at gamma 4"
        )
    if options.json:
        report = {
            "gammas": GAMMAS,
            **{name: getattr(options, name) for name in ("tokens", "plain_tokens", "length")},
            "cores_used": 1,
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
            "results": results,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def transcripts(tokens: int, length: int) -> Iterator[Transcript]:
    """Responses of `length` tokens, `tokens` in all; a quarter of the text is copies of 4 to 19 tokens of it."""
    chance = random.Random(0)
    weights = [1 / (rank + 10) for rank in range(VOCABULARY)]  # as often as words of a language are
    for number in range(tokens // length):
        fresh = iter(chance.choices(range(VOCABULARY), weights, k=2 * length))
        text: list[int] = []
        while len(text) < 2 * length:
            if len(text) > 50 and chance.random() < 0.03:
                begin = chance.randrange(len(text) - 20)
                text += text[begin : begin + chance.randrange(4, 20)]
            else:
                text.append(next(fresh))
        yield Transcript(str(number), text[:length], text[length : 2 * length])


Drafts = Callable[[Transcript], list[list[int]]]
"""The drafts of at most 4 tokens at every position of a response."""


def _compare(
    log: list[Transcript], short: list[Transcript], profiler: type[Any], indexed: Drafts, plain: Drafts
) -> dict[str, Any]:
    begun = time.process_time()
    found = profile(log, [profiler()], GAMMAS, {profiler.method: FREE})
    seconds = time.process_time() - begun
    rates, drafts = [], []
    for rule in (indexed, plain):
        begun = time.process_time()
        drafts.append([rule(transcript) for transcript in short])
        rates.append(sum(map(len, drafts[-1])) / (time.process_time() - begun))
    (method,) = found.as_dict()["methods"]
    return {
        "tokens_per_minute": 60 * found.response_tokens / seconds,
        "drafts_per_second": rates[0],
        "plain_drafts_per_second": rates[1],
        "ratio": rates[0] / rates[1],
        "same_drafts": drafts[0] == drafts[1],
        "mean_acceptance_length": method["gammas"][3]["mean_acceptance_length"],
    }


def _indexed_ngrams(transcript: Transcript) -> list[list[int]]:
    index = NgramIndex()
    index.extend(transcript.prompt)
    drafts = []
    for token in transcript.response:
        index.extend([token])
        drafts.append(index.propose(4))
    return drafts


def _searched_ngrams(transcript: Transcript) -> list[list[int]]:
    tokens = [*transcript.prompt, *transcript.response]
    begin = len(transcript.prompt)
    return [_search(tokens[: begin + t]) for t in range(1, len(transcript.response) + 1)]


def _search(tokens: list[int]) -> list[int]:
    for n in (4, 3, 2):
        ending = tokens[-n:]
        for start in range(len(tokens) - n):
            if tokens[start] == ending[0] and tokens[start : start + n] == ending:
                return tokens[start + n : start + n + 4]
    return []


def _indexed_suffixes(transcript: Transcript) -> list[list[int]]:
    index = SuffixIndex(transcript.prompt, SuffixRule())
    drafts = []
    for token in transcript.response:
        index.extend([token])
        drafts.append(index.propose(4))
    return drafts


def _searched_suffixes(transcript: Transcript) -> list[list[int]]:
    """A new tree at every position: which of equal counts comes first depends on how the tree has grown."""
    tokens = [*transcript.prompt, *transcript.response]
    begin = len(transcript.prompt)
    return [SuffixIndex(tokens[: begin + t], SuffixRule()).propose(4) for t in range(1, len(transcript.response) + 1)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=400_000, help="response tokens of the log")
    parser.add_argument("--plain-tokens", type=int, default=20_000, help="of them, for the rules without an index")
    parser.add_argument("--length", type=int, default=500, help="tokens of a response, and of its prompt")
    parser.add_argument("--json", type=Path, help="write the results here too")
    return parser


if __name__ == "__main__":
    main()
