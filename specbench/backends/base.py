"""What every engine adapter provides: pure commands in, settings and acceptance counts out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from specbench.acceptance import AcceptanceCounts
from specbench.speculation import BASELINE, Speculation


@dataclass(frozen=True, slots=True)
class Launch:
    """All that forces a server restart. Batch size is not here: the server's limit is the grid's largest, in both arms.

    target, target_name: directory of the weights; the name the server answers to
    max_model_len: prompt plus output tokens per request
    dtype: float32 or bfloat16
    verification: rejection or coupled (backends that have only one kind ignore it)
    threads: CPU threads of the engine, None for its own default
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


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a server: nothing here has run yet.

    argv: program and arguments; the literal `{port}` stands for the port that the launcher picks
    env:  variables added to the inherited environment
    files: contents to write before the start, by path relative to the launch's own directory
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """What the running server says of itself.

    differences: sentences on settings that are not what the launch asked for; printed beside every figure of the launch
    """

    engine: str
    version: str
    raw: Mapping[str, Any]
    kv_capacity_tokens: int | None = None
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """What the engine counted between the start and the end of a measurement. None: not reported, never zero.

    phase_seconds: where the engine's time went, by phase (`prefill`, `draft`, `verify`, `accept`)
    """

    acceptance: AcceptanceCounts | None = None
    generated_tokens: int | None = None
    phase_seconds: Mapping[str, float] | None = None


class Probe(Protocol):
    """What `Backend.probe` yields; `counters` is set when the context ends."""

    counters: EngineCounters | None


class Backend(Protocol):
    """An engine that specbench can start and read. Only `read_back` and `probe` ask a running server."""

    name: str

    def check(self, speculation: Speculation) -> None:
        """Raise UnsupportedSpeculation with the reason and the nearest thing that works."""

    def command(self, launch: Launch) -> Command:
        """The exact argv, environment and files of a launch."""

    async def read_back(self, base_url: str, launch: Launch) -> ResolvedSettings:
        """Ask the running server what it resolved, and compare."""

    def probe(self, base_url: str) -> AbstractAsyncContextManager[Probe]:
        """Counters around a measurement."""
