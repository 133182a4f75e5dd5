"""How right an output is: held against a reference by a rule."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from specbench.errors import SpecbenchError
from specbench.tasks.code import program, runs_to_its_end, without_network
from specbench.workloads.prompt import Prompt, Workload
from specbench.workloads.reference import Reference, Rule, last_number

Scorer = Callable[[Prompt, str], float]
"""The score of an output, 0 to 1. May be called from several threads, once for each prompt and text."""

WORKERS = 4
_EDGES = " \"'`*.,;:!?"


@dataclass(frozen=True, slots=True)
class Task:
    """A workload whose outputs can be scored. how: the rules or the command that score, for people

    stopped: ids of the prompts of which a program was stopped by the clock, once for each; grows while scores are made
    """

    workload: Workload
    score: Scorer
    how: str
    stopped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if any(prompt.follow_ups for prompt in self.workload.prompts):
            raise SpecbenchError(f"{self.workload.path} has conversations, and a task is scored answer by answer.")

    def scores(self, outputs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], float]:
        """The score of every pair of prompt id and text; the same pair is scored once, so that it cannot differ."""
        prompts = {prompt.id: prompt for prompt in self.workload.prompts}
        pairs = list(dict.fromkeys(outputs))
        with ThreadPoolExecutor(WORKERS) as pool:
            return dict(zip(pairs, pool.map(lambda pair: self.score(prompts[pair[0]], pair[1]), pairs), strict=True))


def task_by_rules(workload: Workload, rule: Rule | None, run_code: bool) -> Task:
    """Each output by its prompt's own rule, or all by one. Raises SpecbenchError where a prompt cannot be scored so.

    rule: in the place of the prompts' own; where neither is given, `exact`
    """
    rules: dict[str, Rule] = {}
    for prompt in workload.prompts:
        if prompt.reference is None:
            raise SpecbenchError(
                f'{workload.path}: prompt "{prompt.id}" has no right answer to score by. Add "reference" to its line, '
                "or score with --score-command."
            )
        rules[prompt.id] = rule or prompt.reference.rule or "exact"
        if problem := prompt.reference.problem(rules[prompt.id]) or _empty(prompt.reference, rules[prompt.id]):
            raise SpecbenchError(f'{workload.path}: prompt "{prompt.id}": {problem}. Choose another --score.')
    if "code" in rules.values() and not run_code:
        raise SpecbenchError(
            f"scoring {workload.path} runs code that the model wrote, and it may read and write your files"
            f"{'' if without_network() else ' and read the environment of your processes, keys among it'}: pass "
            "--run-code where that does no harm, as in a container."
        )

    stopped: list[str] = []

    def score(prompt: Prompt, output: str) -> float:
        assert prompt.reference is not None
        right = is_right(prompt, prompt.reference, rules[prompt.id], output)
        if right is None:
            stopped.append(prompt.id)
        return float(right or 0)

    return Task(workload, score, " and ".join(sorted({_in_words(rule) for rule in rules.values()})), stopped)


def _in_words(rule: Rule) -> str:
    if rule != "code":
        return rule
    if without_network():
        return "code, run without network"
    return "code, run with the network and within reach of the environment of your processes: neither can be cut here"


def _empty(reference: Reference, rule: Rule) -> str | None:
    """What is wrong with an answer of which comparing leaves nothing: every output would fit it."""
    if rule in ("exact", "contains"):
        for answer in reference.answers:
            if not normalised(answer):
                return f"the reference {answer[:40]!r} is marks and spaces alone, which {rule} does not look at"
    return None


def is_right(prompt: Prompt, reference: Reference, rule: Rule, output: str) -> bool | None:
    """Whether an output fits any of the right answers; None where its program was stopped by the clock."""
    if rule == "code":
        ends = {runs_to_its_end(program(prompt.prompt, output, tests)) for tests in reference.answers}
        return True if True in ends else None if None in ends else False
    return any(_FITS[rule](output, answer) for answer in reference.answers)


def normalised(text: str) -> str:
    """Letters of one case, single spaces, compatible characters as one, without quotes and marks at the ends."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_EDGES)


def _contains(output: str, answer: str) -> bool:
    """As whole words and numbers: 4 is not in 14, nor in 4.5, 0.4 or 4,000."""
    wanted = normalised(answer)
    before = r"(?<!\d\.)(?<!\s\.)" if wanted[:1].isdigit() else ""
    after = r"(?!\.\d|,\d{3}(?!\d))" if wanted[-1:].isdigit() else ""
    return re.search(rf"(?<!\w){before}{re.escape(wanted)}(?!\w){after}", normalised(output)) is not None


_FITS: Mapping[Rule, Callable[[str, str], bool]] = {
    "exact": lambda output, answer: normalised(output) == normalised(answer),
    "contains": _contains,
    "number": lambda output, answer: last_number(output) == last_number(answer),
    "regex": lambda output, answer: re.search(answer, output) is not None,
}
