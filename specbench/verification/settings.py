"""What is to be verified, on what, and how hard to look; everything checked before any server starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from specbench.backends.base import Backend, EngineOptions, Launch
from specbench.backends.servers import check_registry
from specbench.drafter import resolve_drafter
from specbench.equivalence.sampling.battery import LEVEL as LEVEL
from specbench.errors import SpecbenchError
from specbench.speculation import Speculation
from specbench.sweep.config import SweepConfig
from specbench.sweep.launch import locate_engine, make_launch
from specbench.sweep.preflight import check_fit
from specbench.sweep.prepare import check
from specbench.target import resolve_target
from specbench.workloads.prompt import Workload

PROMPTS = Path(__file__).with_name("prompts.jsonl")
"""Short beginnings of texts that can go on in many ways; used where no workload is given."""

DEFAULTS = {
    "workload": (PROMPTS,),
    "gamma": (1, 2),
    "batch_size": (16,),
    "prompts": 24,
    "max_tokens": 48,
    "temperature": 0.8,
    "top_p": 0.95,
    "max_model_len": 1024,
}
"""Where they differ from a sweep's. Gamma is small because the bonus token shows only after full acceptance."""


@dataclass(frozen=True, slots=True)
class Effort:
    """draws: outputs at each fixed context, per arm · contexts: how many of these
    positions: places of longer outputs, per arm, whose probabilities the target is asked for
    level: false alarms in so many verdicts · find_tv: bias that must not go unseen, else the verdict is INCONCLUSIVE
    """

    draws: int = 500
    contexts: int = 8
    positions: int = 1_000
    level: float = LEVEL
    find_tv: float = 0.1

    def __post_init__(self) -> None:
        for name, value in (("--draws", self.draws), ("--contexts", self.contexts), ("--positions", self.positions)):
            if value < 1:
                raise SpecbenchError(f"{name} must be at least 1; got {value}.")
        for name, share in (("--level", self.level), ("--find-tv", self.find_tv)):
            if not 0 < share < 1:
                raise SpecbenchError(f"{name} must be between 0 and 1; got {share:g}.")


@dataclass(frozen=True, slots=True)
class Subject:
    """A verification that can start: directories instead of names, prompts instead of files.

    directory: where logs and results go
    """

    config: SweepConfig
    effort: Effort
    backend: Backend
    target: Path
    drafters: Mapping[str, Path]
    options: EngineOptions
    workload: Workload
    directory: Path

    @property
    def arms(self) -> tuple[Speculation, ...]:
        return self.config.speculations()[1:]

    @property
    def is_sampled(self) -> bool:
        return self.config.temperature > 0

    def launch(self, speculation: Speculation) -> Launch:
        """Log-probabilities of what is sampled from, of the baseline alone: the others' are not asked for."""
        launch = make_launch(self.config, speculation, self.target, self.drafters, self.options)
        return replace(launch, logprobs="processed" if speculation.is_plain else "raw")


def prepare(config: SweepConfig, effort: Effort, output: Path | None, note: Callable[[str], None]) -> Subject:
    """Raises SpecbenchError for whatever would fail later and can be known now."""
    if config.is_simulated:
        raise SpecbenchError("a simulation decodes nothing that could be verified: give --backend reference or vllm.")
    if not config.method:
        raise SpecbenchError("--method none is what others are compared with: name a method that speculates.")
    if len(config.workload) != 1:
        raise SpecbenchError("verify takes one workload: give --workload a single file.")
    check(config, None, resume=False)
    if output is not None and output.exists() and any(output.iterdir()):
        raise SpecbenchError(f"{output} is not empty. Give --output a new directory.")
    check_registry()
    target = resolve_target(config.target, note)
    drafters = {method: resolve_drafter(method, name, note) for method, name in config.drafter.items()}
    checked = check(config, None, resume=False)  # again, now that target and drafters are on disk
    options = locate_engine(checked.options, checked.backend, config.device)
    check_fit(config, options, target, drafters.values(), note)
    (workload,) = checked.workloads.values()
    directory = output or _default_output(config)
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    return Subject(config, effort, checked.backend, target, drafters, options, workload, directory)


def _default_output(config: SweepConfig) -> Path:
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    return Path("reports") / f"{stamp}-verify-{config.backend}-{'+'.join(config.method)}"
