"""After the timed cells: how near to a tie was the baseline wherever an output differs from its own?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import aiohttp
import numpy as np

from specbench.backends.process import LaunchFailed
from specbench.backends.serving import serve
from specbench.equivalence.greedy import Divergence, Margins, compare, first_divergence
from specbench.replay.dialect import SGLANG
from specbench.replay.logprobs import LogprobClient, SglangLogprobClient
from specbench.replay.records import RequestTrace
from specbench.speculation import BASELINE
from specbench.store.measurement import Measurement
from specbench.sweep.progress import Progress
from specbench.sweep.runner import Sweep

LOG = "margins"
EPSILON_PROMPTS = 16
EPSILON_QUANTILE = 0.999


async def probe_margins(sweep: Sweep, progress: Progress) -> None:
    """Write equivalence.json if any greedy output differs from the baseline's; timed cells never ask for log-probs.

    Starts the baseline once more and asks for the log-probabilities at each first divergence (the prompt and the
    common prefix, sent as token ids), and for the change of the baseline's own margins from batch size 1 to the
    largest: its q99.9 is epsilon, below which a difference is a near tie.
    """
    if sweep.config.temperature > 0:
        return
    measurements = [m for m in sweep.store.measurements() if m.status == "ok"]
    found = [(m, divergence, trace) for m in measurements for divergence, trace in _divergences(m, measurements)]
    if not found or _all_probed(sweep, found):
        return
    progress.note(f"{len(found)} outputs differ from the baseline's: asking it how near to ties they are …")
    baselines = {t.prompt_id: t for m in measurements if m.cell.speculation.is_baseline for t in m.traces if _ids(t)}
    # A batch size of 1 alone would be compared with itself.
    launch = replace(sweep.launch(BASELINE), max_batch_size=max(4, *sweep.config.batch_size))
    try:
        async with (
            serve(sweep.backend, launch, sweep.store.log_path(LOG), ready_timeout=sweep.config.ready_timeout) as server,
            server.access.session(server.base_url) as session,
        ):
            client = SglangLogprobClient if sweep.backend.dialect(sweep.options) is SGLANG else LogprobClient
            ask = MarginAsker(client(session, sweep.config.target))
            margins = [await ask.margin(trace, divergence) for _, divergence, trace in found]
            changes = await ask.margin_changes(list(baselines.values())[:EPSILON_PROMPTS], launch.max_batch_size)
    except (LaunchFailed, aiohttp.ClientError, asyncio.TimeoutError, LookupError, TypeError, ValueError) as error:
        progress.note(f"the baseline could not be asked ({error}); differences stand as DIVERGENT, not probed")
        return
    sweep.store.write_json(
        "equivalence.json",
        {
            "epsilon": float(np.quantile(changes, EPSILON_QUANTILE)) if changes else None,
            "epsilon_pairs": len(changes),
            "margins": [
                {
                    "cell": measurement.cell.id,
                    "prompt_id": divergence.prompt_id,
                    "index": divergence.index,
                    "position": divergence.position,
                    "baseline_token": divergence.baseline_token,
                    "token": divergence.token,
                    "margin": margin,
                }
                for (measurement, divergence, _), margin in zip(found, margins, strict=True)
            ],
        },
    )


def _divergences(measurement: Measurement, all_of_them: Sequence[Measurement]) -> list[tuple[Divergence, RequestTrace]]:
    """First divergences from the baseline of the same workload and load, each with the baseline's trace."""
    if measurement.cell.speculation.is_baseline or measurement.cell.speculation.is_lossy:
        return []
    cell = measurement.cell
    for baseline in sorted(all_of_them, key=lambda m: (m.replicate, m.repeat)):
        if baseline.cell == replace(cell, speculation=BASELINE):
            traces = {trace.index: trace for trace in baseline.traces}
            return [(d, traces[d.index]) for d in compare(baseline.traces, measurement.traces).divergences]
    return []


def _all_probed(sweep: Sweep, found: Sequence[tuple[Measurement, Divergence, RequestTrace]]) -> bool:
    """Whether an earlier session of this run has asked for all of these."""
    known = Margins.from_json(sweep.store.read_json("equivalence.json")).by_divergence
    return all((m.cell.id, d.prompt_id, d.position, d.token) in known for m, d, _ in found)


class MarginAsker:
    """Asks a server how near to ties its greedy continuations are."""

    def __init__(self, client: LogprobClient) -> None:
        self._client = client

    async def margin(self, trace: RequestTrace, divergence: Divergence) -> float | None:
        """log p_max - log p(the other output's token) after the common prefix; None where it cannot be known."""
        if trace.prompt_token_ids is None or trace.token_ids is None or divergence.token is None:
            return None
        context = trace.prompt_token_ids + trace.token_ids[: divergence.position]
        top = (await self._client.go_on(context)).top[0]
        token = top.get(divergence.token)
        return None if token is None else max(top.values()) - token

    async def margin_changes(self, traces: Sequence[RequestTrace], batch_size: int) -> list[float]:
        """|change of the top-2 margin| at every position of the common prefixes of two runs: alone, and together."""
        alone = [await self._generate(trace) for trace in traces]
        together: list[tuple[tuple[int, ...], list[float]]] = []
        for begin in range(0, len(traces), batch_size):
            together += await asyncio.gather(*(self._generate(t) for t in traces[begin : begin + batch_size]))
        changes: list[float] = []
        for (ids, margins), (other_ids, other_margins) in zip(alone, together, strict=True):
            common = first_divergence(ids, other_ids)
            pairs = zip(margins[:common], other_margins[:common], strict=False)
            changes += [abs(a - b) for a, b in pairs]
        return changes

    async def _generate(self, trace: RequestTrace) -> tuple[tuple[int, ...], list[float]]:
        """Greedy token ids of the trace's prompt, as many as it had, and the top-2 margin at each."""
        prompt = trace.prompt_token_ids or ()
        given = await self._client.go_on(prompt, max_tokens=trace.output_tokens, logprobs=2)
        ranked = [sorted(top.values(), reverse=True) for top in given.top]
        return given.token_ids, [values[0] - values[1] for values in ranked]


def _ids(trace: RequestTrace) -> bool:
    return trace.error is None and bool(trace.prompt_token_ids) and bool(trace.token_ids)
