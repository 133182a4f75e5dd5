"""What the contract servers share: the behaviour that a test wants, a known-truth server, a child that outlives it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from specbench.simulated.scenario import Engine, Scenario
from specbench.yaml_file import read_mapping

if TYPE_CHECKING:
    from specbench.simulated.formats.base import EngineFormat

VARIABLE = "SPECBENCH_CONTRACT"

_CHILD = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""


class Behaviour(BaseModel):
    """What a test wants of the servers that it starts.

    scenario: acceptance, times and faults (docs/scenarios.md); the engine in it is the executable's own
    truth: folder for the logs of what really happened, METHOD-gGAMMA-PID.jsonl for each start
    gpus: that the machine has; an engine ends at once where it finds none
    busy: how many times the server says that its cache is in use, however idle it is
    version: of the engine; that of the executable's contract without one
    forgets: settings of speculation that it reads and does not heed
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    scenario: Scenario = Scenario()
    truth: Path | None = None
    gpus: int = Field(default=8, ge=0)
    busy: int = Field(default=0, ge=0)
    version: str | None = None
    forgets: tuple[str, ...] = ()


def behaviour() -> Behaviour:
    """Of the file that the variable names; the defaults without it."""
    path = os.environ.get(VARIABLE)
    return Behaviour.model_validate(read_mapping(Path(path)) if path else {})


def run(
    engine: Engine,
    wanted: Behaviour,
    engine_format: type[EngineFormat],
    *,
    method: str,
    gamma: int,
    model_name: str,
    max_batch_size: int,
    max_model_len: int,
    prefix_caching: bool,
    host: str,
    port: int,
    schedule: str | None = None,
) -> None:
    """Serve until SIGTERM. The child that is left over then, engines' schedulers are such, ignores that signal."""
    from specbench.simulated.server import ServerOptions, serve  # half a second, which a refusal need not take

    print(f"CONTRACT SERVER: no {engine} runs here; scenario {wanted.scenario.name}", flush=True)
    truth = None
    if wanted.truth is not None:
        wanted.truth.mkdir(parents=True, exist_ok=True)
        truth = wanted.truth / f"{method}-g{gamma}-{os.getpid()}.jsonl"
    subprocess.Popen([sys.executable, "-c", _CHILD])
    options = ServerOptions(
        model_name=model_name,
        method=method,
        gamma=gamma,
        max_batch_size=max_batch_size,
        max_model_len=max_model_len,
        prefix_caching=prefix_caching,
        schedule=schedule,
        truth=truth,
        host=host,
        port=port,
    )
    scenario = wanted.scenario.model_copy(update={"engine": engine})
    asyncio.run(serve(scenario, options, engine_format))
