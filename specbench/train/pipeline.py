"""A training from end to end: prompts, the target's answers, a drafter, and what it is worth."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import torch

from specbench.digest import file_sha256
from specbench.errors import SpecbenchError
from specbench.train.acceptance import measure_acceptance
from specbench.train.draft_model import DIRECTORY, distillation_loss, train_draft_model
from specbench.train.head_files import LAYER_PREFIXES, head_tensors, write_head
from specbench.train.heads import TrainedHead, head_loss, train_head
from specbench.train.loop import Loss, TrainSettings, held_out
from specbench.train.prepare import Recording, magpie_file, prepare
from specbench.train.published import published, write_published
from specbench.train.report import PromptSet, TrainingReport
from specbench.train.vocabulary import coverage
from specbench.workloads import load_workload
from specbench.workloads.prompt import Workload

REPORT = "report.json"
HEAD = "head"
"""Where in the output a head is that is written in one layout."""
EVALUATION_PROMPTS, EVALUATION_TOKENS = 24, 96
"""Of each set that a drafter is judged by, and of each answer to them."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to train on and what to judge by.

    prompts: workload files to train on · magpie: further prompts that the target writes itself · evaluate: workload
    files that are only evaluated on · output: a directory that a killed run goes on in · data: where the answers are
    recorded, for several trainings to share; output/data by default · max_tokens: of each answer
    vocabulary: tokens that the drafter can say · initial: an EAGLE-3 head to begin with instead of an untrained one
    gamma: draft length of the acceptance report
    """

    target: Path
    target_name: str
    output: Path
    data: Path | None = None
    prompts: tuple[Path, ...] = ()
    magpie: int = 0
    evaluate: tuple[Path, ...] = ()
    max_tokens: int = 160
    vocabulary: int = 8192
    initial: Path | None = None
    gamma: int = 3
    settings: TrainSettings = field(default_factory=TrainSettings)

    def __post_init__(self) -> None:
        if not self.prompts and not self.magpie:
            raise SpecbenchError(
                "nothing to train on. Give --prompts FILE, or let the target write some: --magpie 1000."
            )
        if len({file.stem for file in self.evaluate}) < len(self.evaluate):
            raise SpecbenchError("two files of --evaluate have the same name. Rename one of them.")
        if same := set(self.prompts) & set(self.evaluate):
            raise SpecbenchError(f"{min(same)} is to be trained on and evaluated on. Leave it out of one of the two.")

    @property
    def recorded(self) -> Path:
        return self.data or self.output / "data"


def train_method(recipe: Recipe, method: str) -> TrainingReport:
    """Train a head (eagle3, eagle, medusa or mtp); `output` then holds it and report.json: an EAGLE-3 head in both
    layouts (safeailab/, speculators/), others in head/."""
    judged = [load_workload(file) for file in recipe.evaluate]
    recording = _record(recipe, judged)
    head = train_head(
        method, recipe.target, recording.shards, recording.trained, recipe.output, recipe.settings, recipe.vocabulary,
        recipe.initial,
    )  # fmt: skip
    directory = _write(recipe, method, head)
    return _report(recipe, recording, judged, method, directory, head.token_ids, head_loss(head.module))


def _write(recipe: Recipe, method: str, head: TrainedHead) -> Path:
    """The directory that the reference decoder is to load."""
    state = head.module.state_dict()
    if method != "eagle3":
        (directory := recipe.output / HEAD).mkdir(exist_ok=True)
        tensors = published(method, state, head.token_ids)
        write_published(method, directory, tensors, recipe.target, recipe.target_name)
        return directory
    for layout in LAYER_PREFIXES:
        (directory := recipe.output / layout).mkdir(exist_ok=True)
        write_head(directory, head_tensors(state), head.token_ids, recipe.target, layout, recipe.target_name)
    return recipe.output / "safeailab"


def train_draft(recipe: Recipe, layers: Sequence[int]) -> TrainingReport:
    """Distil a draft model that begins with these of the target's layers; `output` then holds it (draft_model/) and
    report.json."""
    judged = [load_workload(file) for file in recipe.evaluate]
    recording = _record(recipe, judged)
    draft = train_draft_model(
        recipe.target, recording.shards, recording.trained, recipe.output, recipe.settings, layers, recipe.vocabulary
    )
    loss = distillation_loss(draft.model, recipe.target, draft.token_ids)
    return _report(recipe, recording, judged, "draft_model", recipe.output / DIRECTORY, draft.token_ids, loss)


def _record(recipe: Recipe, judged: Sequence[Workload]) -> Recording:
    kept_out = [prompt for workload in judged for prompt in workload.prompts]
    recipe.output.mkdir(parents=True, exist_ok=True)
    return prepare(recipe.target, recipe.prompts, recipe.magpie, kept_out, recipe.recorded, recipe.max_tokens)


def _report(
    recipe: Recipe, recording: Recording, judged: Sequence[Workload], method: str, drafter: Path,
    token_ids: torch.Tensor, loss: Loss,
) -> TrainingReport:  # fmt: skip
    """Judge the drafter, and write `output`/report.json."""
    shards, limit = recording.shards, EVALUATION_PROMPTS
    longest = min(recipe.max_tokens, EVALUATION_TOKENS)
    sets = {"held out": recording.held_out_prompts[:limit]} | {w.name: w.prompts[:limit] for w in judged}
    report = TrainingReport(
        method=method,
        target=recipe.target_name,
        machine=_machine(),
        trained_on=(
            *(PromptSet(file.name, file_sha256(file), len(load_workload(file).prompts)) for file in recipe.prompts),
            *((_magpie(recipe),) if recipe.magpie else ()),
        ),
        evaluated_on=(
            PromptSet("held out of the above", None, len(sets["held out"])),
            *(PromptSet(w.path.name, w.sha256, len(sets[w.name])) for w in judged),
        ),
        records=len(recording.trained),
        answer_tokens=sum(shards[i].answer_length for i in recording.trained),
        epochs=recipe.settings.epochs,
        draft_vocab_size=len(token_ids),
        coverage=coverage(shards, recording.held_out, token_ids),
        held_out=tuple(held_out(loss, shards, recording.held_out, recipe.settings.batch_tokens)),
        gamma=recipe.gamma,
        acceptance={
            name: measure_acceptance(recipe.target, method, drafter, recipe.gamma, prompts, longest)
            for name, prompts in sets.items()
        },
    )
    report.write(recipe.output / REPORT)
    return report


def _magpie(recipe: Recipe) -> PromptSet:
    written = load_workload(magpie_file(recipe.recorded, recipe.magpie))
    return PromptSet("magpie, written by the target", written.sha256, len(written.prompts))


def _machine() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{psutil.cpu_count()}-core {platform.machine()} CPU"
