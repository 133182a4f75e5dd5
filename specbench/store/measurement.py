"""A measurement: one cell measured once, with everything raw that analysis needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specbench.backends.base import EngineCounters
from specbench.replay.records import RequestTrace
from specbench.speculation import Speculation
from specbench.telemetry.sample import Sample

Status = Literal["ok", "failed"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured: the unit that a report shows as one row.

    batch_size:   requests that a closed loop keeps in flight; in an open loop, the most that the server may decode
    request_rate: requests per second that come in an open loop; None for a closed loop
    """

    backend: str
    target: str
    workload: str
    speculation: Speculation
    batch_size: int
    temperature: float
    request_rate: float | None = None

    @property
    def id(self) -> str:
        load = f"b{self.batch_size}" if self.request_rate is None else f"q{self.request_rate:.12g}"
        return f"{self.workload}-{self.speculation.label}-{load}"

    @property
    def is_open_loop(self) -> bool:
        return self.request_rate is not None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One cell, measured once: repeat k (again within a launch) of replicate r (again after a relaunch).

    id:      unique within a run, e.g. `chat-ngram-g4-b8-r0k1`
    launch:  the server launch it was taken in, e.g. `ngram-g4-r0`; its log is `logs/<launch>.log`
    started_at: UTC, ISO 8601;  started, finished: seconds on the clock of the traces and samples
    error, log_tail: why it failed and the engine's last lines; None when ok
    client_lag_p99: the replaying client's own event-loop delay, seconds
    client_cpu_percent, other_cpu_percent: processor time of the replaying client, and of everything but client and
        server, 100 for one core kept busy;  cores: how many there are
    warm_up_settled: whether the server's times stood still before the clock started; None where that was not watched
    traces:  in request order (`index`); the same index is the same prompt in every cell of one batch size
    """

    id: str
    launch: str
    cell: Cell
    replicate: int
    repeat: int
    status: Status
    started_at: str
    started: float = 0.0
    finished: float = 0.0
    error: str | None = None
    log_tail: str | None = None
    client_lag_p99: float | None = None
    client_cpu_percent: float | None = None
    other_cpu_percent: float | None = None
    cores: int | None = None
    warm_up_settled: bool | None = None
    counters: EngineCounters | None = None
    traces: tuple[RequestTrace, ...] = ()
    telemetry: tuple[Sample, ...] = ()
