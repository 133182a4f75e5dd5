"""A scenario: everything that the known-truth server does, from a YAML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from specbench.errors import SpecbenchError
from specbench.quantities import NotTruth, Number
from specbench.speculation import METHODS
from specbench.yaml_file import read_mapping

Engine = Literal["vllm", "sglang", "tensorrt_llm"]
Whole = Annotated[int, NotTruth]
Probability = Annotated[Number, Field(ge=0, le=1)]
Share = Probability
Seconds = Annotated[Number, Field(ge=0)]
Milliseconds = Annotated[Number, Field(ge=0)]
Count = Annotated[Whole, Field(ge=0)]
Positive = Annotated[Whole, Field(ge=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Acceptance(_Part):
    """Probability that drafted token k is kept, given that those before it were.

    alpha: the same at every position;  conditional: by position, the last value for all further ones
    """

    alpha: Probability | None = None
    conditional: tuple[Probability, ...] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_of_both(self) -> Acceptance:
        if (self.alpha is None) == (self.conditional is None):
            raise ValueError("give either alpha or conditional")
        return self

    def probabilities(self, gamma: int) -> tuple[float, ...]:
        """By draft position, length gamma."""
        known = self.conditional if self.conditional is not None else (self.alpha or 0.0,)
        return tuple(known[min(k, len(known) - 1)] for k in range(gamma))


class Category(Acceptance):
    """Prompts whose text the pattern is found in (a regular expression) have an acceptance of their own."""

    pattern: str

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression ({error})") from None
        return pattern


class Drafting(_Part):
    """One speculation method: how its drafts fare, and what they cost.

    acceptance: of prompts that no category claims;  by_category: the first whose pattern is found
    found: probability that a step has a draft at all (n-gram lookup often finds none)
    spread: correlation within a request, 0 for none. Each request draws one quantile, and its probability at position k
        is that quantile of Beta(p_k·c, (1 − p_k)·c) with c = 1/spread − 1: the mean stays p_k, the variance is
        spread·p_k(1 − p_k)
    drift_per_request, drift_per_second: added to the log-odds of every probability, per request and second since start
    fixed_ms, per_token_ms: time to draft, once per step and per drafted position (a draft model's pass each)
    """

    acceptance: Acceptance = Acceptance(alpha=0.7)
    by_category: tuple[Category, ...] = ()
    found: Probability = 1.0
    spread: Number = Field(default=0.0, ge=0, lt=1)
    drift_per_request: Number = 0.0
    drift_per_second: Number = 0.0
    fixed_ms: Milliseconds = 0.0
    per_token_ms: Milliseconds = 0.0


class StepTime(_Part):
    """Milliseconds of one forward pass over n tokens of B sequences that read R tokens of context:

    fixed + ((weights + context·R/1000)^overlap + (compute·n)^overlap)^(1/overlap) + per_sequence·B

    the roofline with a smooth corner: memory traffic and arithmetic overlap the better, the larger the exponent.
    noise, launch_noise: standard deviation of ln(time), drawn anew for each pass and for each start of the server
    """

    fixed_ms: Milliseconds = 0.0
    weights_ms: Milliseconds = 10.0
    context_ms_per_1k_tokens: Milliseconds = 0.0
    compute_ms_per_token: Milliseconds = 0.0
    overlap: Number = Field(default=1.0, ge=1)
    per_sequence_ms: Milliseconds = 0.0
    noise: Number = Field(default=0.0, ge=0, le=1)
    launch_noise: Number = Field(default=0.0, ge=0, le=1)


class Prefill(_Part):
    """Milliseconds of a pass over prompts, during which no sequence decodes. Cached prompt tokens cost nothing."""

    fixed_ms: Milliseconds = 5.0
    per_1k_tokens_ms: Milliseconds = 0.0


class Degenerate(_Part):
    """Prompts (a share of them, always the same ones) whose output repeats its first `period` tokens for ever.

    alpha: acceptance in them: loops are easy to draft
    """

    share: Share
    period: Positive = 2
    alpha: Probability = 1.0


class Output(_Part):
    """How long outputs are, end-of-sequence token included: exactly `tokens`, or log-normal about it.

    sigma: standard deviation of ln(length);  ends: False never ends before the token limit
    """

    tokens: Positive = 64
    sigma: Number = Field(default=0.0, ge=0, le=3)
    ends: bool = True
    degenerate: Degenerate | None = None


class Streaming(_Part):
    """How tokens become events, and events become writes to the socket.

    tokens_per_event: step (what a step made), a number, or random (1 to 16); tokens wait until an event is full
    bytes: event (one write each), split (each event in pieces), merged (2 to 4 events in a write) or anywhere (the
        stream is cut where it happens; what is left over goes with a later write)
    keep_alive: share of writes before which a comment is sent
    line_end: lf, crlf or cr
    """

    tokens_per_event: Literal["step", "random"] | Positive = "step"
    bytes: Literal["event", "split", "merged", "anywhere"] = "event"
    keep_alive: Share = 0.0
    line_end: Literal["lf", "crlf", "cr"] = "lf"


class Fault(_Part):
    """What goes wrong with one request, known by its place in the order of arrival (0-based) or by its prompt's text.

    slow: its prefill takes `seconds` more, and all wait
    stall: its stream is silent for `seconds` after `token` tokens
    disconnect: the connection breaks after `token` tokens;  status: the server answers `status` at once
    error: an error event inside the 200 stream after `token` tokens
    engine_death: the same, for this request and all others from then on, while the HTTP server lives
    crash: the process ends after `token` tokens
    """

    kind: Literal["slow", "stall", "disconnect", "status", "error", "engine_death", "crash"]
    request: Count | None = None
    prompt: str | None = None
    token: Count = 0
    seconds: Seconds = 1.0
    status: Literal[400, 429, 500, 503] = 500

    @model_validator(mode="after")
    def _one_of_both(self) -> Fault:
        if (self.request is None) == (self.prompt is None):
            raise ValueError("give either request (its place in the order of arrival) or prompt (a part of its text)")
        return self

    def strikes(self, request: int, prompt: str) -> bool:
        return self.request == request if self.prompt is None else self.prompt in prompt


class Counters(_Part):
    """How the engine counts.

    ranks: data-parallel ranks, each with counters of its own; requests go to them in turn
    reset_at_request: when that request arrives all counters start again from zero
    foreign_steps: steps of other people's requests per own step, in the counters alone
    whole_last_step: a last draft counts whole, even what the end of the output cut off (as vLLM does); else what was
        emitted counts
    bonus_as_accepted: every step's own token counts as an accepted one, so that rates above 1 appear
    """

    ranks: Positive = Field(default=1, le=1024)
    reset_at_request: Count | None = None
    foreign_steps: Number = Field(default=0.0, ge=0, le=1000)
    whole_last_step: bool = False
    bonus_as_accepted: bool = False


class Scenario(_Part):
    """Everything that the server does. Times of steps come from here too, so a 70B model takes no GPU.

    description: one sentence, printed with every figure of a run on it
    drafting: of every method that `methods` does not name
    max_batch_size: the server's own limit, however many a launch asks for
    start_seconds: until the server is ready;  prefix_caching: on, whatever a launch asks for
    """

    name: str = Field(default="simulated", pattern=r"^[\w.-]+$")
    description: str = ""
    engine: Engine = "vllm"
    seed: Whole = 0
    drafting: Drafting = Drafting()
    methods: Mapping[str, Drafting] = Field(default_factory=dict)
    step: StepTime = StepTime()
    prefill: Prefill = Prefill()
    output: Output = Output()
    streaming: Streaming = Streaming()
    counters: Counters = Counters()
    faults: tuple[Fault, ...] = ()
    max_batch_size: Positive | None = None
    kv_capacity_tokens: Positive | None = None
    prefix_caching: bool = False
    start_seconds: Seconds = 0.0

    @field_validator("methods")
    @classmethod
    def _are_known(cls, methods: Mapping[str, Drafting]) -> Mapping[str, Drafting]:
        if unknown := [m for m in methods if m not in METHODS]:
            raise ValueError(f"unknown method {unknown[0]!r}. Choose from: {', '.join(METHODS)}")
        return methods

    def drafting_of(self, method: str) -> Drafting:
        return self.methods.get(method, self.drafting)


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file. Raises SpecbenchError with one sentence that names the file and the field."""
    try:
        return Scenario.model_validate(read_mapping(path))
    except ValidationError as error:
        raise SpecbenchError(f"{path}: {_sentence(error)}") from error


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"])) or "the scenario"
    if first["type"] == "extra_forbidden":
        return f"{field} is not a setting of a scenario. Check its spelling (docs/scenarios.md has them all)."
    reason = first["msg"].removeprefix("Value error, ")
    return f"{field}: {reason[0].lower()}{reason[1:]}{_got(first['input'])}."


def _got(value: Any) -> str:
    return f"; got {value!r}" if isinstance(value, str | int | float) else ""
