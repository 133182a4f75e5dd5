"""What a seed guarantees with this engine: the same tokens again? In another batch? With another method?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specbench.replay.records import RequestTrace
from specbench.replay.request import RequestSpec
from specbench.sweep.config import SweepConfig
from specbench.sweep.requests import request_order
from specbench.verification.server import Server
from specbench.workloads.prompt import Workload

REQUESTS = 8
TOKENS = 24
Outputs = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class SeedRuns:
    """The same seeded requests three times on one server: a batch in flight, once more, and one by one."""

    together: Outputs
    again: Outputs
    alone: Outputs


@dataclass(frozen=True, slots=True)
class Seeds:
    """How many of `requests` gave the same tokens. as_baseline: as the baseline with the same seed; None for itself"""

    requests: int
    rerun: int
    alone: int
    as_baseline: int | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self) -> str:
        text = (
            f"{_all_of(self.rerun, self.requests)} identical when run again, {_all_of(self.alone, self.requests)} at "
            "batch size 1"
        )
        if self.as_baseline is not None:
            text += f", {_all_of(self.as_baseline, self.requests)} as without speculation"
        return text


async def run_seeded(server: Server, workload: Workload, config: SweepConfig) -> SeedRuns:
    small = config.model_copy(update={"prompts": REQUESTS, "max_tokens": TOKENS})
    requests: list[RequestSpec] = request_order(workload, small, 1)[:REQUESTS]
    return SeedRuns(
        _outputs(await server.replay(requests)),
        _outputs(await server.replay(requests)),
        _outputs(await server.replay(requests, batch_size=1)),
    )


def compare_seeds(baseline: SeedRuns, arms: Mapping[str, SeedRuns]) -> dict[str, Seeds]:
    """By arm, the baseline first (`none`)."""
    found = {"none": _seeds(baseline, None)}
    return found | {name: _seeds(runs, baseline) for name, runs in arms.items()}


def _seeds(runs: SeedRuns, baseline: SeedRuns | None) -> Seeds:
    return Seeds(
        len(runs.together),
        _same(runs.together, runs.again),
        _same(runs.together, runs.alone),
        None if baseline is None else _same(runs.together, baseline.together),
    )


def _outputs(traces: Sequence[RequestTrace]) -> Outputs:
    return tuple(None if trace.error else trace.token_ids for trace in traces)


def _same(a: Outputs, b: Outputs) -> int:
    return sum(x is not None and x == y for x, y in zip(a, b, strict=True))


def _all_of(count: int, total: int) -> str:
    return f"all {total}" if count == total else f"{count} of {total}"
