"""What sets gamma in a simulation, as it is written: our rules, the engines' own, and an oracle beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from specbench.decoder.policies import ADAPTIVE, PREFIX, read_rule
from specbench.decoder.policies.goodput import GoodputRule
from specbench.decoder.policies.table import Steps, read_steps
from specbench.decoder.policies.threshold import ThresholdRule
from specbench.errors import SpecbenchError

POLICIES = {
    "none": "plain decoding",
    "fixed:3": "three tokens, whatever comes",
    f"{PREFIX}1=4+9=0": "by the batch size: 4 from 1 on, none from 9 on (vLLM's num_speculative_tokens_per_batch_size)",
    "threshold": "each request by its own acceptance; threshold+max=5+on=drafted+above=0.85+below=0.7",
    "goodput": "most tokens per second by pooled acceptance and the model's step times; goodput+max=5",
    "tiers": "SGLang's adaptive speculation with its default tiers",
    "utility": "Cascade's test and set phases (Saxena et al., 2025) on the whole batch; utility+max=5",
    "oracle": "the best common gamma at every step, by the true acceptance of each request; oracle+max=5",
}

TIERS = ((1, (1, 3, 5, 7)), (8, (0, 1, 3)), (32, (0, 1)), (64, (0,)))
"""SGLang's default: from which batch size on, between which gammas (`--speculative-adaptive`, 2026)."""

Kind = Literal["table", "threshold", "goodput", "tiers", "utility", "oracle"]


@dataclass(frozen=True, slots=True)
class Policy:
    """largest: the most that it ever asks for;  steps: gamma by batch size, of a table;  threshold: its settings"""

    kind: Kind
    largest: int
    steps: Steps = ((1, 0),)
    threshold: ThresholdRule | None = None


def read_policy(written: str) -> Policy:
    """Raises SpecbenchError for what is none of POLICIES."""
    text = written.removeprefix(ADAPTIVE).removeprefix("fixed:")
    try:
        if text == "none":
            return Policy("table", 0)
        if text.isdecimal():
            return Policy("table", int(text), ((1, int(text)),))
        if text.startswith(PREFIX):
            steps = read_steps(text)
            return Policy("table", max(gamma for _, gamma in steps), steps)
        if text == "tiers":
            return Policy("tiers", max(max(gammas) for _, gammas in TIERS))
        if found := re.fullmatch(r"(utility|oracle)(?:\+max=([1-9][0-9]?))?", text):
            return Policy("oracle" if found[1] == "oracle" else "utility", int(found[2] or 7))
        rule = read_rule(text)
    except ValueError as error:
        raise SpecbenchError(f"policy {written!r}: {error} In a simulation there are: {', '.join(POLICIES)}.") from None
    if isinstance(rule, ThresholdRule):
        return Policy("threshold", rule.max, threshold=rule)
    if isinstance(rule, GoodputRule):
        return Policy("goodput", rule.max)
    raise SpecbenchError(f"policy {written!r} goes by the drafter's probabilities, which a simulation does not have.")
