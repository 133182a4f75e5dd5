"""What every engine adapter provides: pure commands in, settings and acceptance counts out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from specbench.acceptance import AcceptanceCounts
from specbench.access import Access
from specbench.errors import UnsupportedSpeculation
from specbench.replay.dialect import Dialect
from specbench.speculation import BASELINE, Speculation


@dataclass(frozen=True, slots=True)
class Container:
    """An image to run the engine in, and the program that runs it (`docker` or `podman`)."""

    image: str
    runner: str = "docker"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What only some engines know (`Backend.options` names the fields that each heeds); the default is to not say.

    tensor_parallel: GPUs that the weights are split over
    memory_fraction: of the device's memory, for weights and cache together;  kv_cache_bytes: for the cache alone
    engine_args: appended to the engine's own command line, so they win
    python: the interpreter whose environment holds the engine;  container: the image that does
    scenario: what a simulated engine does
    engine_version: for engines that read another configuration in each
    """

    tensor_parallel: int = 1
    quantization: str | None = None
    memory_fraction: float | None = None
    kv_cache_bytes: int | None = None
    prefix_caching: bool = False
    engine_args: tuple[str, ...] = ()
    python: Path | None = None
    container: Container | None = None
    scenario: Path | None = None
    engine_version: str | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """All that forces a server restart. Batch size is not here: the server's limit is the grid's largest, in both arms.

    target, target_name: directory of the weights; the name the server answers to
    max_model_len: prompt plus output tokens per request
    dtype: float32 or bfloat16
    verification: rejection, block, coupled or typical
    threads: CPU threads of the engine, None for its own default
    methods: every method of the sweep: what one of them cannot run with is off in each arm
    matched: whether all arms get the same settings; False leaves each the engine's own defaults, as it is deployed
    logprobs: raw, or processed: those of the distribution that is sampled from, after temperature, top-k and top-p
    """

    target: Path
    target_name: str
    speculation: Speculation = BASELINE
    max_batch_size: int = 1
    max_model_len: int = 2048
    dtype: str = "float32"
    device: str = "cpu"
    verification: str = "rejection"
    threads: int | None = None
    methods: tuple[str, ...] = ()
    matched: bool = True
    logprobs: str = "raw"
    options: EngineOptions = EngineOptions()


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a server: nothing here has run yet.

    argv: program and arguments; the literal `{port}` stands for the port that the launcher picks, `{files}` for the
        directory that `files` are written to
    env:  variables added to the inherited environment
    files: contents to write before the start, by path relative to the launch's own directory
    nice: lower priority of the server by so much; an engine that computes on the CPU must not keep the client waiting
    cleanup: run once the server has ended, however it ended (a container outlives the program that started it)
    tell_pid: prints the server's process, where that is no child of what argv starts (a container's)
    ready_path: answers 200 once the server takes requests
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0
    cleanup: tuple[str, ...] = ()
    tell_pid: tuple[str, ...] = ()
    ready_path: str = "/health"


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """What the running server says of itself.

    differences: sentences on settings that are not what the launch asked for; printed beside every figure of the launch
    lossy: clauses on settings under which outputs are not the target's own (specbench.backends.lossy); the sweep's to
        fill in
    contaminated: clauses on what the server keeps of one measurement that makes the next one faster
    """

    engine: str
    version: str
    raw: Mapping[str, Any]
    kv_capacity_tokens: int | None = None
    differences: tuple[str, ...] = ()
    lossy: tuple[str, ...] = ()
    contaminated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """What the engine counted between the start and the end of a measurement. None: not reported, never zero.

    phase_seconds: where the engine's time went, by phase (`prefill`, `draft`, `prepare` of next drafts, `verify`,
        `accept`, and `host`, in which its device waited while there was work)
    passes: verification passes, each counted once for all sequences in it
    prepared_drafts, ready_drafts: drafts that could have been prepared during verification; those that were, for the
        outcome that came
    drafting_passes, late_passes: passes of such drafts; those that waited for one that was not ready
    verify_bytes, read_bytes_per_s: what these passes had to read, and how fast the device's memory is read at best
    kv_usage_peak: largest share of the KV cache in use that was seen, 0..1
    preemptions: requests thrown out of a full KV cache and computed again
    prefix_cache_queries, prefix_cache_hits: prompt tokens looked up in the prefix cache, and found there
    finished_requests: requests that ended in between
    others_before: requests under way before the first of ours was sent
    reset: a counter went down in between: the server restarted or was flushed, so what it counted is not known
    """

    acceptance: AcceptanceCounts | None = None
    generated_tokens: int | None = None
    phase_seconds: Mapping[str, float] | None = None
    passes: int | None = None
    prepared_drafts: int | None = None
    ready_drafts: int | None = None
    drafting_passes: int | None = None
    late_passes: int | None = None
    verify_bytes: int | None = None
    read_bytes_per_s: float | None = None
    kv_usage_peak: float | None = None
    preemptions: int | None = None
    prefix_cache_queries: int | None = None
    prefix_cache_hits: int | None = None
    finished_requests: int | None = None
    others_before: int | None = None
    reset: bool = False


class Server(Protocol):
    """A server that can be asked, started here or not.

    pid: root of its process tree; None where that is elsewhere, or not known
    exit_code: None while it runs, and of a process that is not ours
    access: how it is reached
    """

    @property
    def base_url(self) -> str: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def exit_code(self) -> int | None: ...

    @property
    def access(self) -> Access: ...

    def log_tail(self) -> str:
        """The last lines that it logged; empty where its log is not ours to read."""

    def said(self) -> str:
        """All that it has logged since its start."""

    async def is_healthy(self) -> bool:
        """Whether it runs and says so."""


class Probe(Protocol):
    """What `Backend.probe` yields; `counters` is set when the context ends."""

    counters: EngineCounters | None


class Backend(Protocol):
    """An engine that specbench can start and read. Only `read_back` and `probe` ask a running server.

    methods: what `check` lets pass
    options: the fields of EngineOptions that it heeds, `acceptance` if it can make that up, `adaptive` if it runs rules
        that set gamma, and `suffix_cached_requests` if its suffix decoding can remember; a sweep refuses others
    start_seconds: how long a start takes, typically; what a plan reckons with until one was measured
    """

    name: str
    methods: tuple[str, ...]
    options: frozenset[str]
    start_seconds: float

    def check(self, speculation: Speculation) -> None:
        """Raise UnsupportedSpeculation with the reason and the nearest thing that works."""

    def command(self, launch: Launch) -> Command:
        """The exact argv, environment and files of a launch."""

    def dialect(self, options: EngineOptions) -> Dialect:
        """How to ask the server, and where it tells acceptance."""

    def explain(self, log: str) -> str | None:
        """A sentence on why a start failed, from the end of the engine's log; None where it is not a known cause."""

    async def read_back(self, base_url: str, launch: Launch) -> ResolvedSettings:
        """Ask the running server what it resolved, and compare."""

    def probe(self, base_url: str) -> AbstractAsyncContextManager[Probe]:
        """Counters around a measurement."""


def check_adaptive(backend: Backend, speculation: Speculation) -> None:
    """Raise UnsupportedSpeculation for a rule that sets gamma where the engine has no place for one."""
    if speculation.adaptive is not None and "adaptive" not in backend.options:
        raise UnsupportedSpeculation(
            f"--gamma {speculation.policy} is a rule of the reference decoder, and the {backend.name} backend takes "
            "none: give it a number, or a schedule by batch size."
        )
