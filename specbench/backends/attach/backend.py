"""Servers that already run, in the place of an engine that specbench starts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from specbench.access import DIRECT, Access
from specbench.backends.attach.counters import count
from specbench.backends.attach.engines import Engine, Told, recognise
from specbench.backends.attach.evidence import TIMEOUT, Evidence, gather
from specbench.backends.attach.server import AttachedServer, listening_pid
from specbench.backends.base import Command, EngineOptions, Launch, ResolvedSettings
from specbench.backends.counter_probe import CounterProbe
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.replay.dialect import OPENAI, Dialect
from specbench.speculation import METHODS, UNKNOWN, Speculation


@dataclass(frozen=True, slots=True)
class Found:
    """A server that answers, and what is known of it."""

    url: str
    access: Access
    engine: Engine
    told: Told
    evidence: Evidence

    @property
    def version(self) -> str:
        return str(self.engine.version(self.evidence) or "version not reported")

    @property
    def is_simulated(self) -> bool:
        return "simulated" in self.evidence.server_info

    @property
    def settings(self) -> Mapping[str, Any]:
        """What two servers must have in common for their ratio to be of speculation alone."""
        return {"engine": self.engine.name, "version": self.version, **self.told.settings}


async def find(url: str, access: Access = DIRECT, patience: float = TIMEOUT) -> Found:
    """Ask a server what it is. Raises SpecbenchError where nobody answers in time or the key is refused."""
    evidence = await gather(url, access, patience)
    engine = recognise(evidence)
    return Found(url, access, engine, engine.told(evidence), evidence)


class AttachBackend:
    """Reads servers, starts none. `specbench.sweep.attaching` makes one that knows its servers.

    baseline, speculative: the servers by arm; None where there is none
    spoken: how both want to be asked;  reset: whether their prefix caches may be emptied
    """

    name = "attach"
    methods: tuple[str, ...] = (*METHODS, UNKNOWN)
    options: frozenset[str] = frozenset()
    start_seconds = 0.0

    def __init__(
        self,
        baseline: Found | None = None,
        speculative: Found | None = None,
        spoken: Dialect = OPENAI,
        *,
        reset: bool = False,
    ) -> None:
        self.baseline, self.speculative, self.spoken, self.reset = baseline, speculative, spoken, reset

    def check(self, speculation: Speculation) -> None:
        if not speculation.attached and not speculation.is_baseline:
            raise UnsupportedSpeculation("an attached server does what it does: leave out what it is to be told.")

    def command(self, launch: Launch) -> Command:
        raise SpecbenchError("--backend attach starts nothing: its servers run already, at --url and --baseline-url.")

    def dialect(self, options: EngineOptions) -> Dialect:
        return self.spoken

    def explain(self, log: str) -> str | None:
        return None

    def server_of(self, speculation: Speculation) -> Found:
        """The server that has this arm. Raises SpecbenchError where none has."""
        found = self.baseline if speculation.is_plain else self.speculative
        if found is None:
            raise SpecbenchError(f"no server was given for {speculation.label}.")
        return found

    @asynccontextmanager
    async def attached(self, launch: Launch) -> AsyncIterator[AttachedServer]:
        """The launch's server, as it runs; nothing is stopped afterwards."""
        found = self.server_of(launch.speculation)
        pid = None if found.is_simulated else listening_pid(found.url)
        yield AttachedServer(found.url, found.access, found.engine, pid)

    async def read_back(self, base_url: str, launch: Launch) -> ResolvedSettings:
        """Asked anew at every turn: a server may have been restarted meanwhile."""
        known = self.server_of(launch.speculation)
        now = await find(base_url, known.access)
        if now.settings != known.settings:
            raise SpecbenchError(f"{base_url} is not the server that it was when the sweep began: it was restarted.")
        remembered = now.engine.remembers(launch.speculation.method, now.evidence, self.reset)
        return ResolvedSettings(
            engine=f"SIMULATED {now.engine.name}" if now.is_simulated else now.engine.name,
            version=now.version,
            raw={
                "url": base_url,
                "models": [str(model.get("id")) for model in now.evidence.models],
                "server_info": now.evidence.server_info,
                "props": now.evidence.props,
                "info": now.evidence.info,
            },
            kv_capacity_tokens=now.told.kv_capacity_tokens,
            differences=() if launch.speculation.is_plain else tuple(self._differences()),
            contaminated=() if remembered is None else (remembered,),
        )

    @asynccontextmanager
    async def probe(self, base_url: str) -> AsyncIterator[CounterProbe]:
        found = next(f for f in (self.baseline, self.speculative) if f is not None and f.url == base_url)
        async with count(base_url, found.access, found.engine, reset=self.reset) as probe:
            yield probe

    def _differences(self) -> list[str]:
        """What is not alike in the two servers, or cannot be known to be."""
        if self.baseline is None or self.speculative is None:
            return []
        here, there = self.speculative.settings, self.baseline.settings
        both = [name for name in here if name in there]
        found = [
            f"{name} is {here[name]!r}, on the baseline's server {there[name]!r}"
            for name in both
            if here[name] != there[name]
        ]
        told = (self.speculative.told, self.baseline.told)
        missing = {name for each in told for name in (*each.settings, *each.untold)}.difference(both)
        if missing or not all(each.settings for each in told):
            names = ", ".join(sorted(missing)) if all(each.settings for each in told) else "its settings"
            found.append(f"a server does not tell {names}, so whether both have the same is not known")
        return found
