"""Runs a plan: one server at a time, its measurements in order, each written the moment it is taken."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import aiohttp

from specbench.backends.base import Backend, EngineOptions, Launch, ResolvedSettings, Server
from specbench.backends.log_notes import log_differences
from specbench.backends.lossy import lossy_log, lossy_settings, lossy_variables
from specbench.backends.process import LaunchFailed
from specbench.backends.serving import serve
from specbench.errors import SpecbenchError
from specbench.replay.arrivals import arrival_offsets
from specbench.replay.client import StreamingClient
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.open_loop import run_open_loop
from specbench.replay.raw_log import RawLog
from specbench.replay.records import ReplayRun, RequestTrace
from specbench.replay.request import RequestSpec
from specbench.simulated.mark import is_simulated
from specbench.speculation import Speculation
from specbench.store.measurement import Cell, Measurement
from specbench.store.run import RunStore
from specbench.sweep.config import SweepConfig
from specbench.sweep.launch import make_launch, refuse_lossy
from specbench.sweep.plan import PlannedLaunch, PlannedMeasurement, SweepPlan
from specbench.sweep.progress import Progress
from specbench.sweep.requests import memory_requests, request_order, warm_up_requests
from specbench.sweep.warm_up import warm_up
from specbench.telemetry.machine import machine_load
from specbench.telemetry.sample import Sample
from specbench.telemetry.sampler import sample_server
from specbench.workloads.prompt import Workload


class MeasurementFailed(SpecbenchError):
    """A measurement that gave no result; the sweep goes on."""


class WarmUpFailed(MeasurementFailed):
    """Not one warm-up request came through: the server is not fit to be measured, and is started again."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Everything that a running sweep needs, resolved: directories instead of names, prompts instead of files."""

    config: SweepConfig
    plan: SweepPlan
    backend: Backend
    target: Path
    drafters: Mapping[str, Path]
    workloads: Mapping[str, Workload]
    store: RunStore
    options: EngineOptions

    def launch(self, speculation: Speculation) -> Launch:
        return make_launch(self.config, speculation, self.target, self.drafters, self.options)


async def run_sweep(sweep: Sweep, progress: Progress) -> None:
    """Measure what the store does not hold yet, and again what failed. A failure is stored and the sweep goes on."""
    done = {m.id for m in sweep.store.measurements() if m.status == "ok"}
    progress.plan(sweep.plan, sum(m.id in done for m in sweep.plan.measurements))
    for number, launch in enumerate(sweep.plan.launches, start=1):
        pending = [m for m in launch.measurements if m.id not in done]
        if pending:
            progress.launch(launch, number)
            await _run_launch(sweep, launch, pending, progress)


async def _run_launch(
    sweep: Sweep, launch: PlannedLaunch, pending: list[PlannedMeasurement], progress: Progress
) -> None:
    """All pending measurements of a launch. A server that dies in one of them is started again for the rest."""
    while pending:
        try:
            pending = await _serve(sweep, launch, pending, progress)
        except LaunchFailed as failure:
            for measurement in pending:
                _fail(sweep, launch, measurement, str(failure), failure.log_tail, progress)
            return


async def _serve(
    sweep: Sweep, launch: PlannedLaunch, pending: list[PlannedMeasurement], progress: Progress
) -> list[PlannedMeasurement]:
    """Start the launch's server and measure until done or until the server dies; what is left is returned."""
    started = time.perf_counter()
    async with serve(
        sweep.backend,
        sweep.launch(launch.speculation),
        sweep.store.log_path(launch.id),
        ready_timeout=sweep.config.ready_timeout,
    ) as server:
        try:
            settings = await sweep.backend.read_back(server.base_url, sweep.launch(launch.speculation))
            unmarked = not sweep.store.is_simulated and await is_simulated(server.base_url, server.access)
        except SpecbenchError as error:
            raise LaunchFailed(str(error), server.log_tail()) from error
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, KeyError, ValueError) as error:
            reason = f"the server does not tell its settings ({type(error).__name__}: {error})."
            raise LaunchFailed(reason, server.log_tail()) from error
        if unmarked:
            sweep.store.mark_contract_server()
        _check_same_engine(sweep, launch, settings)
        settings = _with_log(sweep, settings, server.said())
        seconds = time.perf_counter() - started
        sweep.store.write_json(f"launches/{launch.id}.json", {**asdict(settings), "start_seconds": seconds})
        progress.ready(launch, seconds)
        for difference in settings.differences:
            progress.note(f"{launch.id}: {difference}")
        for position, measurement in enumerate(pending):
            started_at = datetime.now(timezone.utc).isoformat()
            try:
                result = await _measure(sweep, server, launch, measurement, started_at, progress)
            except SpecbenchError as failure:  # a probe that finds no metrics is a failed measurement too
                _fail(sweep, launch, measurement, str(failure), server.log_tail(), progress, started_at)
                if isinstance(failure, WarmUpFailed) or not await server.is_healthy():
                    return pending[position + 1 :]
            else:
                sweep.store.write(result)
                progress.measured(measurement, None)
    return []


def _with_log(sweep: Sweep, settings: ResolvedSettings, log: str) -> ResolvedSettings:
    """The settings with what the log admits, and with their lossy switches named.

    Raises SpecbenchError for a lossy one that nobody has asked for.
    """
    temperature = sweep.config.temperature
    lossy = (
        *lossy_settings(settings.raw, temperature),
        # Neither an attached server nor a container inherits them.
        *(() if sweep.config.is_attached or sweep.options.container else lossy_variables(os.environ)),
        *lossy_log(log, temperature),
    )
    refuse_lossy(lossy, sweep.config)
    return replace(settings, lossy=lossy, differences=(*settings.differences, *log_differences(log)))


def _check_same_engine(sweep: Sweep, launch: PlannedLaunch, settings: ResolvedSettings) -> None:
    """An engine that was upgraded between a run and its continuation must not share its tables.

    Two attached servers may differ, which then stands beside every figure.
    """
    for name, earlier in sweep.store.launches().items():
        own = name.startswith(f"{launch.speculation.label}-r") or not sweep.config.is_attached
        if own and earlier["version"] != settings.version:
            raise SpecbenchError(
                f"{sweep.store.path} was begun with {settings.engine} {earlier['version']} ({name}), and this is "
                f"{settings.version}. Start a new run with another --output."
            )


async def _measure(
    sweep: Sweep,
    server: Server,
    launch: PlannedLaunch,
    planned: PlannedMeasurement,
    started_at: str,
    progress: Progress,
) -> Measurement:
    workload, batch_size = sweep.workloads[planned.cell.workload], planned.cell.batch_size
    requests = request_order(workload, sweep.config, batch_size)
    watch = _Totals(progress)

    async def send(beforehand: list[RequestSpec]) -> ReplayRun:
        async with _client(sweep, server) as client:
            return await run_closed_loop(client, beforehand, min(batch_size, len(beforehand)))

    warm = await warm_up(lambda number: send(warm_up_requests(workload, sweep.config, batch_size, number)))
    try:
        await _check(warm.last, server)
        if count := planned.cell.speculation.cached_requests:
            _check_remembered(await send(memory_requests(workload, sweep.config, count)))
    except MeasurementFailed as failure:
        raise WarmUpFailed(f"in the warm-up, {failure}") from failure
    progress.measure(planned, len(requests))
    with _raw_log(sweep, planned) as raw_log:
        async with _client(sweep, server, raw_log) as client, sweep.backend.probe(server.base_url) as probe:
            with _sampled(sweep, server) as samples, machine_load(server.pid) as load:
                run = await _replay(client, requests, planned.cell, sweep.config, watch)
    await _check(run, server)
    return Measurement(
        id=planned.id,
        launch=launch.id,
        cell=planned.cell,
        replicate=planned.replicate,
        repeat=planned.repeat,
        status="ok",
        started_at=started_at,
        started=run.started,
        finished=run.finished,
        client_lag_p99=run.client_lag_p99,
        client_cpu_percent=load.client_percent,
        other_cpu_percent=None if server.pid is None else load.other_percent,
        cores=load.cores,
        warm_up_settled=warm.settled,
        counters=probe.counters,
        traces=tuple(run.traces),
        telemetry=tuple(samples),
    )


async def _replay(
    client: StreamingClient, requests: list[RequestSpec], cell: Cell, config: SweepConfig, watch: _Totals
) -> ReplayRun:
    """Every request once: slot by slot, or at the times that the arrival process gives them."""
    if cell.request_rate is None:
        return await run_closed_loop(client, requests, cell.batch_size, on_progress=watch.add)
    rate = cell.request_rate if config.request_rate else None  # a trace without a rate keeps its own times
    offsets = arrival_offsets(config.arrivals(), len(requests), rate, config.seed)
    return await run_open_loop(client, requests, offsets.tolist(), on_progress=watch.add)


def _client(sweep: Sweep, server: Server, raw_log: RawLog | None = None) -> StreamingClient:
    config = sweep.config
    return StreamingClient(
        server.base_url,
        config.target,
        dialect=sweep.backend.dialect(sweep.options),
        timeout=config.request_timeout,
        raw_log=raw_log,
        access=server.access,
    )


def _sampled(sweep: Sweep, server: Server) -> AbstractContextManager[list[Sample]]:
    """Memory, power and use beside a measurement; those of a simulation are nobody's figures."""
    return nullcontext([]) if sweep.store.is_simulated or server.pid is None else sample_server(server.pid)


def _raw_log(sweep: Sweep, planned: PlannedMeasurement) -> AbstractContextManager[RawLog | None]:
    if not sweep.config.save_events:
        return nullcontext()
    folder = sweep.store.path / "events"
    folder.mkdir(exist_ok=True)
    return RawLog(folder / f"{planned.id}.jsonl")


async def _check(run: ReplayRun, server: Server) -> None:
    """A dead or sick server, or no request that came through, is a failed measurement; some failed requests are its
    figures.
    """
    errors = [trace.error for trace in run.traces if trace.error]
    # An engine behind its HTTP server can die alone; of one that died whole the event loop learns a moment later.
    sick = bool(errors) and not await server.is_healthy()
    if sick:
        await asyncio.sleep(0.5)
    if server.exit_code is not None:
        raise MeasurementFailed(f"the server ended in mid-measurement with exit code {server.exit_code}.")
    if sick:
        raise MeasurementFailed(f"the engine died in mid-measurement: {errors[0]}")
    if len(errors) == len(run.traces):
        raise MeasurementFailed(f"every request failed; the first: {errors[0]}")


def _check_remembered(run: ReplayRun) -> None:
    """Raises MeasurementFailed for a request that failed: the arm's name says how many responses there are."""
    if errors := [trace.error for trace in run.traces if trace.error]:
        raise MeasurementFailed(f"a response that was to be remembered did not come: {errors[0]}")


@dataclass(slots=True)
class _Totals:
    """Sums over finished requests, for the progress line."""

    progress: Progress
    requests: int = 0
    tokens: int = 0
    steps: int = 0
    accepted: int = 0

    def add(self, trace: RequestTrace) -> None:
        self.requests += 1
        self.tokens += trace.output_tokens
        if trace.acceptance:
            self.steps += trace.acceptance.steps
            self.accepted += trace.acceptance.accepted
        self.progress.tokens(self.requests, self.tokens, self.steps, self.accepted)


def _fail(
    sweep: Sweep,
    launch: PlannedLaunch,
    planned: PlannedMeasurement,
    error: str,
    log_tail: str,
    progress: Progress,
    started_at: str | None = None,
) -> None:
    sweep.store.write(
        Measurement(
            id=planned.id,
            launch=launch.id,
            cell=planned.cell,
            replicate=planned.replicate,
            repeat=planned.repeat,
            status="failed",
            started_at=started_at or datetime.now(timezone.utc).isoformat(),
            error=error,
            log_tail=log_tail,
        )
    )
    progress.measured(planned, error)
