"""How much of a drafter's work the target keeps, on prompts that it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.degenerate import ends_in_loop
from specbench.decoder.config import ModelConfig
from specbench.decoder.load import load_engine
from specbench.decoder.request import Request, StepOutput
from specbench.decoder.sampling import SamplingParams
from specbench.train.chat import ChatFormat
from specbench.train.device import train_device
from specbench.workloads.prompt import Prompt

ROWS = 8
LONGEST = 2048
"""Tokens of prompt and answer together."""


@dataclass(slots=True)
class _Answer:
    tokens: list[int] = field(default_factory=list)
    steps: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: list[int] = field(default_factory=list)

    def add(self, output: StepOutput) -> None:
        self.tokens += output.token_ids
        if not output.first:
            self.steps += 1
            self.drafts += output.drafted > 0
            self.drafted += output.drafted
            self.accepted.append(output.accepted)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What the target kept of greedy drafts.

    prompts: decoded; those whose answer ran into a loop, which accepts anything, are counted in `loops` and left out
    """

    prompts: int
    loops: int
    counts: AcceptanceCounts


def measure_acceptance(
    target: Path, method: str, drafter: Path | None, gamma: int, prompts: Sequence[Prompt], max_tokens: int
) -> Acceptance:
    """Decode the prompts greedily in float32 with the reference decoder. Prompts that are too long are left out."""
    chat = ChatFormat.from_directory(target)
    limit = min(LONGEST, ModelConfig.from_directory(target).max_length)
    engine = load_engine(
        target,
        method=method,
        gamma=gamma,
        drafter=drafter,
        dtype="float32",
        device=train_device().type,
        max_batch_size=ROWS,
        max_model_len=limit,
    )
    answers: dict[str, _Answer] = {}
    for prompt in prompts:
        ids = chat.encode(prompt)
        if len(ids) + max_tokens <= limit:
            engine.add(Request(prompt.id, ids, SamplingParams(temperature=0.0, max_tokens=max_tokens)))
            answers[prompt.id] = _Answer()
    while engine.has_work:
        for output in engine.step():
            answers[output.request_id].add(output)
    sound = [a for a in answers.values() if not ends_in_loop(a.tokens)]
    kept = [accepted for answer in sound for accepted in answer.accepted]
    return Acceptance(
        prompts=len(answers),
        loops=len(answers) - len(sound),
        counts=AcceptanceCounts(
            steps=sum(a.steps for a in sound),
            drafted=sum(a.drafted for a in sound),
            accepted=sum(kept),
            drafts=sum(a.drafts for a in sound),
            by_position=tuple(sum(accepted > k for accepted in kept) for k in range(gamma)),
        ),
    )
