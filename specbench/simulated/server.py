"""The known-truth server as a process.

python -m specbench.simulated.server --scenario FILE --method eagle3 --gamma 4 --port 0 --truth truth.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from specbench.errors import SpecbenchError
from specbench.simulated.app import SimulatedApp
from specbench.simulated.engine import SimulatedEngine
from specbench.simulated.formats import FORMATS
from specbench.simulated.formats.base import EngineFormat
from specbench.simulated.scenario import Scenario, load_scenario
from specbench.simulated.truth import TruthLog
from specbench.wire.process import die_with_parent, serve_until_stopped


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What a launch says beside the scenario; a front end with another engine's flags fills in the same."""

    model_name: str = "simulated"
    method: str = "none"
    gamma: int = 0
    max_batch_size: int = 8
    max_model_len: int = 2048
    prefix_caching: bool = False
    schedule: str | None = None
    truth: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0


@asynccontextmanager
async def simulated(
    scenario: Scenario, options: ServerOptions, engine_format: type[EngineFormat] | None = None
) -> AsyncIterator[web.AppRunner]:
    """A running engine with its HTTP application, not yet bound to a port.

    engine_format: that of the scenario's engine without one
    """
    truth = TruthLog(options.truth)
    engine = SimulatedEngine(
        scenario,
        truth,
        method=options.method,
        gamma=options.gamma,
        max_batch_size=options.max_batch_size,
        max_model_len=options.max_model_len,
        prefix_caching=options.prefix_caching,
        schedule=options.schedule,
    )
    speaks = engine_format or FORMATS[scenario.engine]
    runner = SimulatedApp(engine, speaks(engine, options.model_name)).make_runner()
    work = asyncio.create_task(engine.run())
    try:
        await runner.setup()
        yield runner
    finally:
        await runner.cleanup()
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        truth.close()


async def serve(scenario: Scenario, options: ServerOptions, engine_format: type[EngineFormat] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    async with simulated(scenario, options, engine_format) as runner:
        await serve_until_stopped(runner, options.host, options.port)


def main() -> None:
    """A scenario that cannot be read is one sentence on stderr and exit code 1."""
    options = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if options.die_with_parent:
        die_with_parent()
    try:
        scenario = load_scenario(options.scenario) if options.scenario else Scenario()
        print(f"SIMULATED: scenario {scenario.name} in the format of {scenario.engine}", flush=True)
        asyncio.run(
            serve(
                scenario,
                ServerOptions(
                    model_name=options.served_model_name,
                    method=options.method,
                    gamma=options.gamma,
                    max_batch_size=options.max_batch_size,
                    max_model_len=options.max_model_len,
                    prefix_caching=options.prefix_caching,
                    schedule=options.schedule,
                    truth=options.truth,
                    host=options.host,
                    port=options.port,
                ),
            )
        )
    except (SpecbenchError, OSError) as error:
        sys.exit(f"specbench.simulated.server: {error}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="specbench.simulated.server", description=__doc__)
    parser.add_argument("--scenario", type=Path, help="YAML file; the defaults without one")
    parser.add_argument("--served-model-name", default="simulated", help="name in requests and answers")
    parser.add_argument("--method", default="none", help="whose acceptance and cost the scenario is asked for")
    parser.add_argument("--gamma", type=int, default=0, help="tokens drafted per step; 0 with method none")
    parser.add_argument("--schedule", help="gamma by running requests, such as 1=4+5=2+9=0; --gamma is its largest")
    parser.add_argument("--max-batch-size", type=int, default=8, help="requests decoded together")
    parser.add_argument("--max-model-len", type=int, default=2048, help="prompt and output tokens per request")
    parser.add_argument("--prefix-caching", action="store_true", help="prompts seen before are prefilled faster")
    parser.add_argument("--truth", type=Path, help="log of what really happened, JSON lines")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--die-with-parent", action="store_true", help="end when the process that started this one ends"
    )
    return parser


if __name__ == "__main__":
    main()
