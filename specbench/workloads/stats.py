"""What a workload is like: sizes, categories, and how much it repeats itself (which n-gram drafting lives on)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import fmean, median

from specbench.errors import SpecbenchError
from specbench.model_config import model_config, tokenizer_config
from specbench.workloads.prompt import Prompt, Workload

NGRAM = 4
HISTOGRAM_BINS = 12
UNCATEGORIZED = "(none)"

Encode = Callable[[Prompt], Sequence[object]]
"""A prompt as the sequence that is counted: token ids, or words."""


@dataclass(frozen=True, slots=True)
class WorkloadStats:
    """Figures of a workload; lengths are in `unit`.

    multi_turn:   prompts with more than one message from the user, said already or to follow
    duplicates:   prompts whose text is that of an earlier one
    lengths:      per prompt, in the workload's order; of a conversation, of its first request
    repetition:   mean over prompts of `repeated_ngrams`
    """

    prompts: int
    multi_turn: int
    categories: dict[str, int]
    duplicates: int
    unit: str
    lengths: tuple[int, ...]
    repetition: float

    @property
    def summary(self) -> dict[str, float]:
        """min, median, mean and max of the lengths."""
        return {
            "min": min(self.lengths),
            "median": median(self.lengths),
            "mean": fmean(self.lengths),
            "max": max(self.lengths),
        }

    @property
    def histogram(self) -> list[tuple[int, int, int]]:
        """(from, below, prompts) per bin, at most HISTOGRAM_BINS of equal width, empty ones between included."""
        width = _round_width(max(self.lengths) - min(self.lengths))
        bins = Counter(length // width for length in self.lengths)
        return [(b * width, (b + 1) * width, bins[b]) for b in range(min(bins), max(bins) + 1)]


def workload_stats(workload: Workload, encode: Encode, unit: str) -> WorkloadStats:
    """Measure a workload of at least one prompt; `unit` names what `encode` gives (`tokens`, `words`)."""
    encoded = [encode(prompt) for prompt in workload.prompts]
    texts = {(prompt.messages and conversation(prompt)) or prompt.prompt for prompt in workload.prompts}
    return WorkloadStats(
        prompts=len(encoded),
        multi_turn=sum(_user_turns(prompt) > 1 for prompt in workload.prompts),
        categories=dict(Counter(prompt.category or UNCATEGORIZED for prompt in workload.prompts).most_common()),
        duplicates=len(encoded) - len(texts),
        unit=unit,
        lengths=tuple(map(len, encoded)),
        repetition=fmean(map(repeated_ngrams, encoded)),
    )


def repeated_ngrams(sequence: Sequence[object], n: int = NGRAM) -> float:
    """Share of the sequence's n-grams that stood earlier in it, 0 to 1; 0 where it is shorter than n."""
    ngrams = [tuple(sequence[i : i + n]) for i in range(len(sequence) - n + 1)]
    return (len(ngrams) - len(set(ngrams))) / len(ngrams) if ngrams else 0.0


def conversation(prompt: Prompt) -> str:
    """A prompt's text as a person would read it, a line per message."""
    if prompt.messages is None:
        return prompt.prompt or ""
    said = (*prompt.messages, *({"role": "user", "content": text} for text in prompt.follow_ups))
    return "\n".join(f"{message['role']}: {message['content']}" for message in said)


def words(prompt: Prompt) -> list[str]:
    """Encode without a tokenizer: what stands between white space."""
    text = [m["content"] for m in prompt.messages] if prompt.messages else [prompt.prompt or ""]
    return " ".join(text).split()


def tokens(target: Path) -> Encode:
    """Encode with a target's tokenizer, chat template and generation prompt included: what the server will see.

    Raises SpecbenchError when transformers is not installed, or the directory has no tokenizer that loads.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise SpecbenchError("counting tokens needs transformers: pip install '.[reference]'.") from error
    model_config(target)
    if (target / "tokenizer_config.json").is_file():
        tokenizer_config(target)
    try:
        tokenizer = AutoTokenizer.from_pretrained(target, local_files_only=True)
    except (OSError, ValueError) as error:
        raise SpecbenchError(f"no tokenizer loads from {target} ({str(error).splitlines()[0]}).") from error

    def encode(prompt: Prompt) -> list[int]:
        if prompt.messages is None:
            return list(tokenizer(prompt.prompt).input_ids)
        if tokenizer.chat_template is None:
            raise SpecbenchError(f'{target} has no chat template, and prompt {prompt.id} has "messages". Use "prompt".')
        chat = [dict(message) for message in prompt.messages]
        return list(tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False))

    return encode


def _round_width(span: int) -> int:
    """The least of 1, 2, 5, 10, 20, 50, … that covers `span` with HISTOGRAM_BINS bins wherever they begin."""
    widths: Iterator[int] = (mantissa * 10**exponent for exponent in count() for mantissa in (1, 2, 5))
    return next(width for width in widths if span // width + 2 <= HISTOGRAM_BINS)


def _user_turns(prompt: Prompt) -> int:
    return sum(message["role"] == "user" for message in prompt.messages or ()) + len(prompt.follow_ups)
