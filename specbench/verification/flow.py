"""The order of a verification: the baseline, every arm, and the baseline once more with what the arms raised."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from specbench.equivalence.greedy import Margins
from specbench.errors import SpecbenchError
from specbench.speculation import BASELINE
from specbench.store.atomic import replacing
from specbench.verification.greedy import (
    Traces,
    ask_margins,
    check_greedy,
    divergences,
    run_greedy,
    run_greedy_baseline,
)
from specbench.verification.result import Verification
from specbench.verification.sampling import SamplingRun, arms_drafted, conclude, draw_arm, find_candidates
from specbench.verification.seeds import SeedRuns, compare_seeds, run_seeded
from specbench.verification.server import start
from specbench.verification.settings import Subject

RESULT, TEXT = "verify.json", "verify.txt"


async def run_verification(subject: Subject, note: Callable[[str], None]) -> Verification:
    """Start the engine once per arm and twice without speculation, never two servers at a time.

    note: gets a sentence before each long step. Raises SpecbenchError where a server does not start or fails.
    """
    config, effort, workload = subject.config, subject.effort, subject.workload
    outputs: dict[str, Traces] = {}
    seeded: dict[str, SeedRuns] = {}
    run, notes = SamplingRun(), []
    async with start(subject, BASELINE, note) as server:
        engine = server.version
        notes += [f"none: {difference}" for difference in server.differences]
        baseline = await run_greedy_baseline(server, workload, config)
        if subject.is_sampled:
            run = await find_candidates(server, baseline.together, config, effort)
            baseline_seeds = await run_seeded(server, workload, config)
    for arm in subject.arms:
        async with start(subject, arm, note) as server:
            notes += [f"{arm.label}: {difference}" for difference in server.differences]
            outputs[arm.label] = await run_greedy(server, workload, config)
            if subject.is_sampled:
                await draw_arm(server, arm, run, config, effort)
                seeded[arm.label] = await run_seeded(server, workload, config)
    found, margins, sampling, control = divergences(baseline, outputs), Margins(), None, None
    if found or subject.is_sampled:
        async with start(subject, BASELINE, note) as server:
            margins = await ask_margins(server, baseline, found, config.batch_size[-1])
            if subject.is_sampled:
                sampling, control = await conclude(server, run, config, effort)
    return Verification(
        settings=_settings(subject),
        engine=engine,
        notes=tuple(notes),
        greedy=check_greedy(baseline, outputs, margins),
        sampling=sampling,
        control=control,
        acceptance=arms_drafted(run.arms),
        seeds=compare_seeds(baseline_seeds, seeded) if subject.is_sampled else None,
        # Rounding may decide a draw in other precisions, where a batch of another shape computes otherwise.
        seeds_promised=config.verification == "coupled" and config.dtype == "float32",
    )


def write(directory: Path, result: Mapping[str, Any], text: Sequence[str]) -> None:
    """The result into a directory, as JSON and as the lines that are printed. Raises SpecbenchError where it cannot."""
    files = {RESULT: json.dumps(result, indent=1, allow_nan=False) + "\n", TEXT: "\n".join(text) + "\n"}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with replacing(directory / name) as partial:
                partial.write_text(content, encoding="utf-8")
    except OSError as error:
        raise SpecbenchError(f"cannot write to {directory}: {error.strerror}. Choose another --output.") from error


def _settings(subject: Subject) -> dict[str, Any]:
    config, effort = subject.config, subject.effort
    names = ("backend", "target", "method", "drafter", "gamma", "temperature", "top_p", "top_k", "seed", "verification",
             "dtype", "device", "prompts", "max_tokens")  # fmt: skip
    given = config.model_dump(mode="json")
    return {
        **{name: given[name] for name in names},
        "batch_size": config.batch_size[-1],
        "workload": subject.workload.name,
        "draws": effort.draws,
        "contexts": effort.contexts,
        "positions": effort.positions,
        "level": effort.level,
        "find_tv": effort.find_tv,
    }
