"""The traffic of a run of ours: what an open loop sent, and how long the answers were."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from specbench.errors import SpecbenchError
from specbench.store.run import RunStore
from specbench.workloads.traffic import Traffic


def run_traffic(path: Path) -> Traffic:
    """The requests of the run's first sound open-loop measurement at its highest rate, the baseline's if there is one.

    Requests with the same prompt, and the turns after it, are one session. Raises SpecbenchError for a run of closed
    loops, whose arrivals are those of answers and not of users.
    """
    sound = [m for m in RunStore.open(path).measurements() if m.status == "ok" and m.cell.is_open_loop]
    if not sound:
        raise SpecbenchError(
            f"{path} holds no open loop: in a closed one requests come when others end. "
            "Measure with --request-rate, or give a trace."
        )
    chosen = max(sound, key=lambda m: (m.cell.request_rate or 0, m.cell.speculation.is_baseline))
    answered = [t for t in chosen.traces if t.error is None and t.prompt_tokens and t.output_tokens]
    if not answered:
        raise SpecbenchError(f"{path}: no request of {chosen.id} was answered with its counts of tokens.")
    begun: dict[int, str] = {}
    for t in chosen.traces:
        begun[t.index] = t.prompt_id if t.follows is None else begun[t.follows]
    due = np.array([t.scheduled for t in answered])
    order = np.argsort(due, kind="stable")
    return Traffic(
        arrival=due[order] - due.min(),
        prompt_tokens=np.array([t.prompt_tokens for t in answered], dtype=np.int32)[order],
        output_tokens=np.array([t.output_tokens for t in answered], dtype=np.int32)[order],
        session=np.unique([begun[t.index] for t in answered], return_inverse=True)[1].astype(np.int64)[order],
    )
