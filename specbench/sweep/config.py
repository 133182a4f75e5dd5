"""A sweep's configuration: its fields, and what does not go together."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ByteSize, Field, field_validator, model_validator

from specbench.backends.base import Container, EngineOptions
from specbench.decoder.drafters import BRANCHING
from specbench.decoder.policies import ADAPTIVE, parse
from specbench.decoder.rates import PREFIX as SYNTHETIC
from specbench.decoder.rates import check_rates, parse_rates
from specbench.decoder.tree_shape import CHAIN, check_tree, parse_tree
from specbench.paths import expand_home
from specbench.quantities import (
    Budget,
    Engineering,
    Gamma,
    Gpus,
    LatencyBounds,
    NotTruth,
    Number,
    PositiveInt,
    Price,
    Rate,
    Seconds,
    Share,
    TokensPerMonth,
    WholeNumber,
)
from specbench.replay.arrivals import Arrival, parse_arrival
from specbench.speculation import AGAIN, AS_DEPLOYED, BASELINE, DRAFTERLESS, METHODS, OWN_HEAD, UNKNOWN, Speculation
from specbench.sweep.attach_options import ATTACH, AttachOptions
from specbench.sweep.secret_words import secret_setting

MAX_TEMPERATURE = 2
"""What OpenAI's API takes, and servers of it."""

LEAST_TOP_P = 1e-6
"""Less keeps the best token alone, which temperature 0 says without rounding."""

MAX_SEED = 2**63 - 2**32
"""Servers take seeds of 64 bits, and each request has its own: this one plus its index."""

MAX_THREADS = 1024

MAX_BATCH_SIZE = 100_000
MAX_REQUESTS = 10_000_000
"""Beyond what any server or hour takes, and a typo more than that would hang."""

_CONFIDENCE = 0.95


class SweepConfig(AttachOptions):
    """What to measure, on what, and what a GPU-hour costs. Every field is a flag of `specbench sweep`."""

    workload: tuple[Path, ...] = Field(min_length=1, description="prompt files; each is measured by itself")
    format: str | None = Field(None, description="of the prompt files, where their fields do not tell it")
    backend: str = Field("reference", description="the engine that serves the target")
    target: str = Field("demo", min_length=1, description="the model: demo, a local directory, or a hub id")
    method: tuple[str, ...] = Field(
        ("ngram",), description="speculation methods; the baseline `none` is always measured"
    )
    drafter: Mapping[str, str] = Field(default_factory=dict, description="drafter weights by method")
    gamma: tuple[Gamma, ...] = Field(
        (4,),
        description="tokens proposed per step, one schedule:1=4+5=2+9=0 by batch size, or adaptive:threshold, "
        "adaptive:goodput, adaptive:confidence",
    )
    batch_size: tuple[Annotated[PositiveInt, Field(le=MAX_BATCH_SIZE)], ...] = Field(
        (1, 4), min_length=1, description="requests kept in flight"
    )
    request_rate: tuple[Rate, ...] = Field(
        (), description="requests per second: an open loop in the place of batch sizes, the largest of which limits it"
    )
    arrival: str | None = Field(None, description="how an open loop's requests arrive; poisson by default")
    slo: LatencyBounds = Field(default_factory=dict, description="latency bounds by metric and percentile")
    prompts: PositiveInt | None = Field(None, description="how many prompts of each workload; all by default")
    requests: PositiveInt | None = Field(
        None, le=MAX_REQUESTS, description="per measurement; as many as there are prompts by default"
    )
    max_tokens: PositiveInt = Field(64, description="output tokens per request, where the prompt does not say")
    temperature: Number = Field(0.0, ge=0, le=MAX_TEMPERATURE)
    top_p: Number = Field(1.0, ge=LEAST_TOP_P, le=1)
    top_k: WholeNumber = Field(0, ge=0, description="0 keeps the whole vocabulary")
    seed: WholeNumber = Field(0, ge=-(2**63), le=MAX_SEED)
    verification: Literal["rejection", "block", "coupled", "typical"] = "rejection"
    tree: tuple[str, ...] = Field(
        (CHAIN,), min_length=1, description="how drafts branch: chain, 8x60 (top-k by nodes), static:4x2x1"
    )
    suffix_cached_requests: tuple[Annotated[WholeNumber, Field(ge=0)], ...] = Field(
        (0,), min_length=1, description="responses to other prompts that suffix decoding has before a measurement"
    )
    acceptance: str | None = Field(
        None, description="made up in the place of verdicts: synthetic:0.8, or a rate per draft position"
    )
    repeats: PositiveInt = Field(1, description="measurements of a cell within one launch")
    replicates: PositiveInt = Field(3, description="launches of each arm, interleaved")
    until_ci: Share | None = Field(
        None, description="go on with replicates until every speedup is known to so much either way, such as 3%"
    )
    max_replicates: PositiveInt = Field(20, description="where until_ci stops all the same")
    until_confident: bool = Field(
        False, description="measure the cells that tell most, until the best arm at each batch size is known"
    )
    confidence: Share = Field(_CONFIDENCE, ge=0.5, description="how sure of it until_confident asks to be")
    budget: Budget | None = Field(
        None, description="the same, at most so much of the whole grid's time, such as 20% or 30m; 100% is all of it"
    )
    baseline_vs_baseline: bool = Field(False, description="measure the baseline a second time, as if it were a method")
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="on a GPU bfloat16, unless given")
    device: str = Field("cpu", pattern=r"^(cpu|cuda(:\d+)?)$", description="cpu, cuda or cuda:N")
    threads: PositiveInt | None = Field(None, le=MAX_THREADS)
    max_model_len: PositiveInt = 2048
    baseline: Literal["matched", "as-deployed", "both"] = Field(
        "matched",
        description="whether arms share their settings or each has the engine's own defaults; both: shared, and plain "
        "decoding with the engine's own defaults beside them",
    )
    chat_template_kwargs: Mapping[str, Any] = Field(default_factory=dict, description="for the server's chat template")
    tensor_parallel: PositiveInt = Field(1, description="GPUs that the weights are split over")
    quantization: str | None = Field(None, description="how the engine quantizes the target, such as fp8")
    memory_fraction: Number | None = Field(None, gt=0, le=1, description="of the device's memory")
    kv_cache: Annotated[ByteSize, NotTruth] | None = Field(
        None, description="memory of the KV cache, such as 2GiB, of each GPU"
    )
    prefix_caching: bool = Field(False, description="let requests share the KV cache of a common beginning")
    engine_arg: tuple[str, ...] = Field((), description="appended to the engine's own command line")
    python: Path | None = Field(None, description="interpreter of the engine's environment")
    container: str | None = Field(None, description="image to run the engine in")
    engine_version: str | None = Field(None, description="where neither the image's tag nor the environment tells it")
    scenario: Path | None = Field(None, description="what the simulated backend does")
    ready_timeout: Seconds = Field(600.0, description="until a launch counts as failed")
    request_timeout: Seconds = Field(600.0, description="until a request counts as failed")
    skip_bad_lines: bool = False
    allow_lossy: bool = Field(False, description="measure an engine whose outputs are not the target's own")
    save_events: bool = Field(False, description="keep every byte that the server streamed")
    gpu_price: Price | None = Field(None, description="per GPU-hour")
    gpu_count: Gpus = 1
    currency: str = "USD"
    engineering_cost: Engineering | None = Field(None, description="one-off cost of switching speculation on")
    tokens_per_month: TokensPerMonth | None = None

    @model_validator(mode="before")
    @classmethod
    def _fits_the_device(cls, values: Any) -> Any:
        """GPUs' attention kernels compute in 16 bits: in float32 an engine takes slow ones without a word, or fails."""
        if isinstance(values, Mapping) and values.get("device", "cpu") != "cpu":
            return {"dtype": "bfloat16", **values}
        return values

    @field_validator("workload")
    @classmethod
    def _at_home(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(map(expand_home, paths))

    @field_validator("method")
    @classmethod
    def _without_baseline(cls, methods: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [m for m in methods if m not in (*METHODS, UNKNOWN)]:
            raise ValueError(f"unknown method {unknown[0]!r}. Choose from: {', '.join(METHODS)}")
        return tuple(m for m in dict.fromkeys(methods) if m != BASELINE.method)

    @field_validator("batch_size", "request_rate", "suffix_cached_requests")
    @classmethod
    def _sorted(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sorted(set(values)))

    @field_validator("gamma")
    @classmethod
    def _one_of_each_rule(cls, gammas: tuple[int | str, ...]) -> tuple[int | str, ...]:
        rules = list(dict.fromkeys(gamma for gamma in gammas if isinstance(gamma, str)))
        names = [_rule_name(rule) for rule in rules]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"one {twice[0]} at a time: reports tell arms apart by method and largest gamma")
        return (*sorted({gamma for gamma in gammas if isinstance(gamma, int)}), *rules)

    @field_validator("acceptance")
    @classmethod
    def _rates(cls, written: str | None) -> str | None:
        if written is not None:
            parse_rates(written)
        return written

    @field_validator("tree")
    @classmethod
    def _shapes(cls, trees: tuple[str, ...]) -> tuple[str, ...]:
        for tree in trees:
            parse_tree(tree)
        return tuple(dict.fromkeys(trees))

    @field_validator("arrival")
    @classmethod
    def _arrives_somehow(cls, written: str | None) -> str | None:
        parse_arrival(written or "poisson")
        return written

    @field_validator("engine_arg")
    @classmethod
    def _splits_into_words(cls, arguments: tuple[str, ...]) -> tuple[str, ...]:
        for argument in arguments:
            try:
                words, wrong = shlex.split(argument), None
            except ValueError as error:
                words, wrong = argument.split(), error
            if secret := secret_setting(words):
                raise ValueError(
                    f"{secret} takes a secret, and a run writes its engine's command line down for anyone to read. Put "
                    "it into the variable that the engine reads, such as HF_TOKEN for --hf-token, and export that; a "
                    "server that specbench starts is asked without a key, so it needs no --api-key"
                )
            if wrong is not None:
                raise ValueError(f"no shell could split {argument} ({wrong}). Mind its quotation marks")
        return arguments

    @model_validator(mode="after")
    def _speculates_somehow(self) -> SweepConfig:
        if not self.is_attached and (not self.gamma or UNKNOWN in self.method):
            raise ValueError(f"only --backend {ATTACH} can do without knowing --method and --gamma")
        return self

    @model_validator(mode="after")
    def _every_gpu_is_priced(self) -> SweepConfig:
        if self.gpu_price is not None and self.gpu_count < self.tensor_parallel:
            raise ValueError(
                f"the server runs on {self.tensor_parallel} GPUs and {self.gpu_count} is priced: "
                f"--gpu-count {self.tensor_parallel}"
            )
        return self

    @model_validator(mode="after")
    def _has_replicates_to_add(self) -> SweepConfig:
        if self.until_ci is not None and self.is_open_loop:
            raise ValueError("--until-ci is of speedups, and an open loop has none: give --replicates instead")
        if self.until_ci is not None and self.max_replicates < self.replicates:
            raise ValueError(
                f"--max-replicates {self.max_replicates} is less than --replicates {self.replicates}, the number to "
                "begin with"
            )
        return self

    @model_validator(mode="after")
    def _can_stop_early(self) -> SweepConfig:
        reasons = {
            "--until-ci adds replicates of the whole grid": self.until_ci is not None,
            "an open loop has no throughput to predict": self.is_open_loop,
            "attached servers need no start, so that little is saved": self.is_attached,
            "there is no method to choose from": not self.method,
            "a schedule or rule of gamma is not modelled": any(isinstance(gamma, str) for gamma in self.gamma),
            "drafts that branch are not modelled": self.tree != (CHAIN,),
            "a memory of earlier responses is not modelled": self.remembers,
            "--baseline both and --baseline-vs-baseline are of every cell": self.baseline == "both"
            or self.baseline_vs_baseline,
        }
        if self.stops_early and (why := next((why for why, holds in reasons.items() if holds), None)):
            raise ValueError(f"{'--until-confident' if self.until_confident else '--budget'} cannot be: {why}")
        if self.confidence != _CONFIDENCE and not self.until_confident and self.budget is None:
            raise ValueError(f"--confidence {self.confidence:.3g} goes with --until-confident or --budget: add one")
        return self

    @model_validator(mode="after")
    def _arrivals_have_a_rate(self) -> SweepConfig:
        if self.arrival is not None and not self.is_open_loop:
            raise ValueError(f"--arrival {self.arrival} does not say how many come: add --request-rate, as in 2,4,8")
        return self

    @model_validator(mode="after")
    def _rates_fit(self) -> SweepConfig:
        if self.acceptance is not None:
            check_rates(parse_rates(self.acceptance), max((parse(g).largest for g in self.gamma), default=0))
        return self

    @model_validator(mode="after")
    def _trees_fit(self) -> SweepConfig:
        if self.tree != (CHAIN,) and not set(self.method) & set(BRANCHING):
            raise ValueError(f"--tree is for {', '.join(BRANCHING)}: the other methods draft chains")
        for tree in self.tree:
            for gamma in self.gamma:
                check_tree(parse_tree(tree), parse(gamma).largest, self.verification, self.acceptance is not None)
        return self

    @model_validator(mode="after")
    def _something_remembers(self) -> SweepConfig:
        if self.remembers and "suffix" not in self.method:
            raise ValueError("--suffix-cached-requests is for method suffix: the others keep no earlier responses")
        return self

    @model_validator(mode="after")
    def _output_fits(self) -> SweepConfig:
        if self.max_tokens >= self.max_model_len:
            raise ValueError(
                f"--max-tokens {self.max_tokens} leaves no room for a prompt in --max-model-len {self.max_model_len}"
            )
        return self

    @model_validator(mode="after")
    def _drafters_fit(self) -> SweepConfig:
        for method in self.method:
            if method not in DRAFTERLESS and method not in self.drafter and not self.is_attached:
                raise ValueError(f"method {method} needs a drafter: --drafter {method}=DIRECTORY")
        for method in self.drafter:
            if method in DRAFTERLESS and method not in OWN_HEAD:
                raise ValueError(f"method {method} takes no drafter; leave --drafter {method}=… out")
            if method not in self.method:
                raise ValueError(f"a drafter is given for {method!r}, which is not among the methods")
        return self

    @property
    def stops_early(self) -> bool:
        """Whether cells are chosen one after another; a budget of all of it, for a run to go on with, ends that."""
        return self.budget != "100%" and (self.until_confident or self.budget is not None)

    @property
    def remembers(self) -> bool:
        """Whether an arm drafts from responses to earlier requests, so that no server may get a prompt twice."""
        return any(self.suffix_cached_requests)

    @property
    def is_simulated(self) -> bool:
        """Whether no engine runs: then no model is fetched, and every figure says so."""
        return self.backend == "simulated"

    @property
    def is_typical(self) -> bool:
        """Whether drafts are verified in a way that does not leave outputs the target's own."""
        return self.verification == "typical"

    @property
    def is_open_loop(self) -> bool:
        """Whether requests arrive by the clock (at a rate, or as in a trace), not as slots become free."""
        return bool(self.request_rate) or self.arrivals().kind == "trace"

    def arrivals(self) -> Arrival:
        """How an open loop's requests arrive."""
        return parse_arrival(self.arrival or "poisson")

    def engine_options(self) -> EngineOptions:
        """What only some engines know, as given; where the engine is installed is for others to find out."""
        return EngineOptions(
            tensor_parallel=self.tensor_parallel,
            quantization=self.quantization,
            memory_fraction=self.memory_fraction,
            kv_cache_bytes=self.kv_cache,
            prefix_caching=self.prefix_caching,
            engine_args=tuple(part for argument in self.engine_arg for part in shlex.split(argument)),
            python=self.python,
            container=None if self.container is None else Container(self.container),
            scenario=None if self.scenario is None else expand_home(self.scenario),
            engine_version=self.engine_version,
        )

    def speculations(self) -> tuple[Speculation, ...]:
        """The arms of the sweep, the baseline first; of attached servers, those that there are."""
        if self.is_attached:
            gamma = next((g for g in self.gamma if isinstance(g, int)), 0)
            arms = tuple(Speculation(method, gamma, attached=True) for method in self.method)
            return arms if arms and self.baseline_url is None else (BASELINE, *arms)
        return (
            BASELINE,
            *((AS_DEPLOYED,) if self.baseline == "both" else ()),
            *((AGAIN,) if self.baseline_vs_baseline else ()),
            *(
                self._arm(method, gamma, tree, cached)
                for method in self.method
                for gamma in self.gamma
                for tree in self._trees(method)
                for cached in (self.suffix_cached_requests if method == "suffix" else (0,))
            ),
        )

    def _trees(self, method: str) -> tuple[str, ...]:
        return self.tree if method in BRANCHING else (CHAIN,)

    def _arm(self, method: str, gamma: int | str, tree: str, cached: int) -> Speculation:
        synthetic = None if self.acceptance is None else self.acceptance.removeprefix(SYNTHETIC)
        return Speculation.of(
            method,
            gamma,
            self.drafter.get(method),
            synthetic,
            tree,
            typical=self.is_typical,
            cached_requests=cached,
        )


def _rule_name(rule: str) -> str:
    """`schedule`, or an adaptive rule without its settings."""
    return rule.partition("+")[0] if rule.startswith(ADAPTIVE) else "schedule"


PRICING = ("gpu_price", "gpu_count", "currency", "engineering_cost", "tokens_per_month", "slo")
"""Fields that change what a measurement is worth, not what it measures."""

_EXTENT = ("repeats", "replicates", "until_ci", "max_replicates", "until_confident", "confidence", "budget")
_WAY_IN = ("api_key_env", "header_env", "ca_file")
CONTINUABLE = (*PRICING, *_EXTENT, *_WAY_IN, "ready_timeout", "request_timeout", "save_events")
"""Fields that a resumed run may change: they say how much is measured, not what."""
