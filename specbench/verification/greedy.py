"""The greedy check: token ids at temperature 0, how near to ties differences are, and the baseline's own noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from specbench.equivalence.greedy import Divergence, Equivalence, Margins, NoiseFloor, compare, judge, noise_floor
from specbench.replay.records import RequestTrace
from specbench.sweep.config import SweepConfig
from specbench.sweep.margins import EPSILON_PROMPTS, EPSILON_QUANTILE, MarginAsker
from specbench.sweep.requests import request_order
from specbench.verification.server import Server
from specbench.workloads.prompt import Workload

Traces = tuple[RequestTrace, ...]


@dataclass(frozen=True, slots=True)
class GreedyBaseline:
    """The baseline's outputs with a batch in flight, the same once more, and one by one."""

    together: Traces
    again: Traces
    alone: Traces

    @property
    def floor(self) -> NoiseFloor:
        return noise_floor([self.together, self.again, self.alone])


@dataclass(frozen=True, slots=True)
class GreedyCheck:
    """By arm, its verdict; and how often the baseline differs from itself."""

    arms: Mapping[str, Equivalence]
    floor: NoiseFloor
    epsilon: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "noise_floor": asdict(self.floor),
            "epsilon": self.epsilon,
            "arms": {
                name: {
                    "verdict": arm.verdict,
                    "requests": arm.requests,
                    "detail": arm.detail,
                    "near_ties": [asdict(d) for d in arm.near_ties],
                    "divergent": [asdict(d) for d in arm.divergent],
                    "unprobed": arm.unprobed,
                }
                for name, arm in self.arms.items()
            },
        }


def greedy_config(config: SweepConfig) -> SweepConfig:
    return config.model_copy(update={"temperature": 0.0, "top_p": 1.0, "top_k": 0})


async def run_greedy(server: Server, workload: Workload, config: SweepConfig, batch_size: int | None = None) -> Traces:
    return await server.replay(request_order(workload, greedy_config(config), 1), batch_size)


async def run_greedy_baseline(server: Server, workload: Workload, config: SweepConfig) -> GreedyBaseline:
    return GreedyBaseline(
        await run_greedy(server, workload, config),
        await run_greedy(server, workload, config),
        await run_greedy(server, workload, config, batch_size=1),
    )


def divergences(baseline: GreedyBaseline, arms: Mapping[str, Traces]) -> list[tuple[str, Divergence]]:
    return [(name, d) for name, traces in arms.items() for d in compare(baseline.together, traces).divergences]


async def ask_margins(
    server: Server, baseline: GreedyBaseline, found: Sequence[tuple[str, Divergence]], batch_size: int
) -> Margins:
    """How near to ties the baseline was where an output differs; epsilon is the noise of its own margins."""
    if not found:
        return Margins()
    ask, traces = MarginAsker(server.logprobs), {trace.index: trace for trace in baseline.together}
    margins = {(name, d.prompt_id, d.position, d.token): await ask.margin(traces[d.index], d) for name, d in found}
    changes = await ask.margin_changes(baseline.together[:EPSILON_PROMPTS], max(2, batch_size))
    return Margins(float(np.quantile(changes, EPSILON_QUANTILE)) if changes else None, margins)


def check_greedy(baseline: GreedyBaseline, arms: Mapping[str, Traces], margins: Margins) -> GreedyCheck:
    verdicts = {name: judge(name, baseline.together, [traces], margins, seeded=True) for name, traces in arms.items()}
    return GreedyCheck(verdicts, baseline.floor, margins.epsilon)
