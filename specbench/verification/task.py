"""`specbench verify --task`: the same prompts with and without speculation, and whether their score moved."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.equivalence.greedy import Margins
from specbench.errors import SpecbenchError
from specbench.speculation import BASELINE
from specbench.sweep.config import SweepConfig
from specbench.sweep.requests import request_order
from specbench.tasks.check import EXIT_CODES, MAX_DROP, Outcome, Outputs, TaskCheck, check_task
from specbench.tasks.command import task_by_command
from specbench.tasks.paired import LEVEL
from specbench.tasks.scoring import Task, task_by_rules
from specbench.tasks.stored import stored_outputs
from specbench.verification.greedy import GreedyBaseline, Traces, ask_margins, check_greedy, divergences
from specbench.verification.result import record_of
from specbench.verification.server import Server, start
from specbench.verification.settings import DEFAULTS, Subject
from specbench.workloads.prompt import Workload
from specbench.workloads.reference import RULES

TASK_DEFAULTS = {
    **DEFAULTS,
    "gamma": (4,),
    "prompts": None,
    "max_tokens": 256,
    "temperature": 0.0,
    "top_p": 1.0,
    "max_model_len": 2048,
}
"""A task is asked as it would be served: whole answers, greedy unless told otherwise."""

SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Question:
    """How outputs are scored, and what counts as worse.

    rule: in the place of the prompts' own · command: in the place of any rule · samples: per prompt, at a temperature
    max_drop: of the score, that must be ruled out · level: false alarms among verdicts
    """

    rule: str | None = None
    command: str | None = None
    run_code: bool = False
    samples: int | None = None
    max_drop: float = MAX_DROP
    level: float = LEVEL

    def __post_init__(self) -> None:
        if self.rule is not None and self.command is not None:
            raise SpecbenchError("--score and --score-command both say how to score: leave one of them out.")
        if self.rule is not None and self.rule not in RULES:
            raise SpecbenchError(f"--score is {self.rule!r}. Choose from: {', '.join(RULES)}.")
        if self.samples is not None and self.samples < 1:
            raise SpecbenchError(f"--samples must be at least 1; got {self.samples}.")
        if not 0 < self.level < 1:
            raise SpecbenchError(f"--level must be between 0 and 1; got {self.level:g}.")

    def check(self, config: SweepConfig, workload: Workload) -> None:
        """Raises SpecbenchError for what would fail after minutes of decoding."""
        self.requests(config, workload)
        self.task(workload)

    def task(self, workload: Workload) -> Task:
        """Raises SpecbenchError where a prompt of the workload cannot be scored so."""
        if self.command is not None:
            return task_by_command(workload, self.command)
        return task_by_rules(workload, next((rule for rule in RULES if rule == self.rule), None), self.run_code)

    def requests(self, config: SweepConfig, workload: Workload) -> SweepConfig:
        """The configuration with as many requests as samples of every prompt take.

        Raises SpecbenchError for samples that greedy decoding cannot differ in.
        """
        greedy = config.temperature == 0
        if greedy and self.samples not in (None, 1):
            raise SpecbenchError(f"--samples {self.samples} of greedy decoding are all the same: give a --temperature.")
        prompts = min(config.prompts or len(workload.prompts), len(workload.prompts))
        return config.model_copy(update={"requests": prompts * (1 if greedy else self.samples or SAMPLES)})


@dataclass(frozen=True, slots=True)
class TaskVerification:
    """settings: what was asked for · engine: its name and version · notes: settings that are not what was asked for"""

    settings: Mapping[str, Any]
    engine: str
    notes: tuple[str, ...]
    task: TaskCheck

    @property
    def outcome(self) -> Outcome:
        return self.task.outcome

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]

    def to_json(self) -> dict[str, Any]:
        """Keys: verdict, engine, settings, notes, task."""
        return record_of(self, task=self.task.to_json())


async def run_task(subject: Subject, question: Question, note: Callable[[str], None]) -> TaskVerification:
    """Start the engine once per arm and once or twice without speculation, never two servers at a time.

    The baseline answers twice, at the batch size asked for and at half of it: what that changes is the engine's own
    noise. Raises SpecbenchError where a server does not start or fails, or an output cannot be scored.
    """
    task, config = question.task(subject.workload), question.requests(subject.config, subject.workload)
    batch_size, greedy = config.batch_size[-1], config.temperature == 0
    outputs: dict[str, Traces] = {}
    notes: list[str] = []

    async def answers(server: Server, in_flight: int) -> Traces:
        return await server.replay(request_order(subject.workload, config, 1), in_flight)

    async with start(subject, BASELINE, note) as server:
        engine = server.version
        notes += [f"none: {difference}" for difference in server.differences]
        together = await answers(server, batch_size)
        baseline = GreedyBaseline(together, await answers(server, max(1, batch_size // 2)), ())
    for arm in subject.arms:
        async with start(subject, arm, note) as server:
            notes += [f"{arm.label}: {difference}" for difference in server.differences]
            outputs[arm.label] = await answers(server, batch_size)
    margins = Margins()
    if greedy and (found := divergences(baseline, outputs)):
        async with start(subject, BASELINE, note) as server:
            margins = await ask_margins(server, baseline, found, batch_size)
    tokens = check_greedy(baseline, outputs, margins).arms if greedy else {}
    note("scoring the outputs …")
    arms = {
        name: Outputs(baseline.together, traces, baseline.again, tokens.get(name)) for name, traces in outputs.items()
    }
    return TaskVerification(
        settings=_settings(config, batch_size, subject.workload),
        engine=engine,
        notes=tuple(notes),
        task=check_task(task, arms, question.max_drop, question.level),
    )


def _settings(config: SweepConfig, batch_size: int, workload: Workload) -> dict[str, Any]:
    names = ("backend", "target", "method", "drafter", "gamma", "temperature", "top_p", "top_k", "seed", "verification",
             "dtype", "device", "prompts", "requests", "max_tokens")  # fmt: skip
    given = config.model_dump(mode="json")
    return {**{name: given[name] for name in names}, "batch_size": batch_size, "workload": workload.name}


def stored_verification(
    run: Path, workload: Workload, methods: Collection[str], question: Question
) -> TaskVerification:
    """The outputs of a run that is there already, scored. methods: the only ones wanted; all where empty

    Raises SpecbenchError where the run has no outputs of this task.
    """
    task, stored = question.task(workload), stored_outputs(run, workload, methods)
    return TaskVerification(
        settings={**stored.settings, "run": run.name, "workload": workload.name},
        engine=stored.engine,
        notes=("SIMULATED: no engine ran, and what was scored is not what a model says",) if stored.simulated else (),
        task=check_task(task, stored.arms, question.max_drop, question.level),
    )
