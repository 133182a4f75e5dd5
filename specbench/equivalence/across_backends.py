"""Do two engines speculate alike? Greedy acceptance is a property of target and drafter, not of the engine.

Two runs with the same target, drafters and prompts: of every request that both answered with the same token ids, the
drafts must have had the same lengths and fared the same, step by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from specbench.acceptance import AcceptanceCounts
from specbench.errors import SpecbenchError
from specbench.replay.records import RequestAcceptance, RequestTrace
from specbench.store.measurement import Cell, Measurement
from specbench.store.run import RunStore

Verdict = Literal["AGREE", "DIFFER", "NOT_COMPARED"]
DraftedStep = tuple[int, int]
"""Tokens drafted and accepted in one step, as far as the output had room for them."""

_MUST_MATCH = ("max_tokens", "temperature", "seed", "prompts", "dtype", "chat_template_kwargs")


@dataclass(frozen=True, slots=True)
class StepDifference:
    """The first step of a request in which the engines differ.

    step: 0-based among its steps that had a draft;  a, b: what each engine made of it, None where it had no such step
    """

    prompt_id: str
    index: int
    step: int
    a: DraftedStep | None
    b: DraftedStep | None


@dataclass(frozen=True, slots=True)
class CellAgreement:
    """One cell in both runs.

    cell:       its id, the same in both
    requests:   answered by both, with token ids;  unanswered: those that failed, or had no ids, in one of them
    same_ids:   requests in which the ids are the same
    compared:   of those, the ones whose steps both engines list;  steps: how many steps with a draft these have
    differences: one for each of the compared requests whose steps differ
    mean_acceptance_length_per_draft_a, …_b: over the steps with a draft; None where there were none
    """

    cell: str
    speculative: bool
    requests: int
    unanswered: int
    same_ids: int
    compared: int
    steps: int
    differences: tuple[StepDifference, ...]
    mean_acceptance_length_per_draft_a: float | None
    mean_acceptance_length_per_draft_b: float | None

    @property
    def verdict(self) -> Verdict:
        """DIFFER also where ids do: in float32 greedy decoding gives the same tokens in every correct engine."""
        if self.differences or self.same_ids < self.requests:
            return "DIFFER"
        whole = self.requests > 0 and not self.unanswered and (self.compared == self.requests or not self.speculative)
        return "AGREE" if whole else "NOT_COMPARED"


def compare_runs(a: RunStore, b: RunStore) -> list[CellAgreement]:
    """Every cell that either run tried, the first sound measurement of each; without one in both it is NOT_COMPARED.

    Raises SpecbenchError, with the reasons, where different outcomes would be no one's fault.
    """
    if reasons := _obstacles(a.manifest, b.manifest):
        raise SpecbenchError(f"{a.path} and {b.path} cannot be compared across backends: {'; '.join(reasons)}.")
    cells_a, cells_b = (_first_of_each_cell(store.measurements()) for store in (a, b))
    shared = cells_a.keys() & cells_b.keys()
    if all(cells_a[name].cell.speculation.is_plain for name in shared):
        raise SpecbenchError(
            f"{a.path} and {b.path} have no cell with speculation in common: measure the same workload, method, gamma "
            "and batch size with both backends."
        )
    return [
        compare_cells(measured.cell, *(cells[name].traces if name in cells else () for cells in (cells_a, cells_b)))
        for name, measured in {**cells_b, **cells_a}.items()
    ]


def compare_cells(cell: Cell, a: Sequence[RequestTrace], b: Sequence[RequestTrace]) -> CellAgreement:
    """Two measurements of one cell, request by request (`index`)."""
    others = {t.index: t for t in b}
    pairs = [(t, others[t.index]) for t in a if t.index in others and _answered(t) and _answered(others[t.index])]
    same = [(x, y) for x, y in pairs if x.token_ids == y.token_ids and _same_prompt(x, y)]
    aligned = [(x, steps) for x, y in same if (steps := align(len(x.token_ids or ()), x.acceptance, y.acceptance))]
    differences = []
    for trace, (steps_a, steps_b) in aligned:
        for step, (left, right) in enumerate(zip_longest(steps_a, steps_b)):
            if left != right:
                differences.append(StepDifference(trace.prompt_id, trace.index, step, left, right))
                break
    return CellAgreement(
        cell=cell.id,
        speculative=not cell.speculation.is_plain,
        requests=len(pairs),
        unanswered=len({t.index for t in a} | others.keys()) - len(pairs),
        same_ids=len(same),
        compared=len(aligned),
        steps=sum(len(steps_a) for _, (steps_a, _) in aligned),
        differences=tuple(differences),
        mean_acceptance_length_per_draft_a=_mean_length(steps_a for _, (steps_a, _) in aligned),
        mean_acceptance_length_per_draft_b=_mean_length(steps_b for _, (_, steps_b) in aligned),
    )


def align(
    tokens: int, a: RequestAcceptance | None, b: RequestAcceptance | None
) -> tuple[list[DraftedStep], list[DraftedStep]] | None:
    """The steps with a draft of one request in two engines, made comparable; None where that cannot be done.

    tokens: output tokens, the same in both
    Engines differ in what they list, not in what they do: vLLM leaves out steps without a draft, and drafts past the
    token limit, counting what no output has room for. One engine that lists every step tells how many tokens were
    still to come at each; both are cut there. A step that had room for its bonus token alone is left out.
    """
    steps_a, steps_b = _steps(a), _steps(b)
    if steps_a is None or steps_b is None:
        return None
    guides = [steps for steps in (steps_a, steps_b) if _is_complete(steps, tokens)]
    if not guides:
        return None
    room, left = [], tokens - 1  # the first token is the prefill's
    for drafted, accepted in max(guides, key=len):
        if drafted or left == 1:
            room.append(left - 1)
        left -= accepted + 1
    return _cut(steps_a, room), _cut(steps_b, room)


def _cut(steps: Iterable[DraftedStep], room: Sequence[int]) -> list[DraftedStep]:
    """Steps with a draft, each cut to the drafted tokens that the output had room for; without any, it is left out."""
    drafts = zip_longest([step for step in steps if step[0]], room)
    fitted = [
        None if step is None else (step if space is None else (min(step[0], space), min(step[1], space)))
        for step, space in drafts
    ]
    return [step for step in fitted if step is not None and step[0]]


def _answered(trace: RequestTrace) -> bool:
    return trace.error is None and trace.token_ids is not None


def _same_prompt(a: RequestTrace, b: RequestTrace) -> bool:
    """Engines render chat templates themselves; where both tell the prompt's ids, they must be the same."""
    return None in (a.prompt_token_ids, b.prompt_token_ids) or a.prompt_token_ids == b.prompt_token_ids


def _steps(acceptance: RequestAcceptance | None) -> list[DraftedStep] | None:
    if acceptance is None or acceptance.per_step_drafted is None or acceptance.per_step_accepted is None:
        return None
    return list(zip(acceptance.per_step_drafted, acceptance.per_step_accepted, strict=True))


def _is_complete(steps: Sequence[DraftedStep], tokens: int) -> bool:
    """Whether all of the output is accounted for; the last step may have been cut by the end of the output."""
    before_last = 1 + sum(accepted + 1 for _, accepted in steps[:-1])
    last = steps[-1][1] + 1 if steps else 0
    return before_last < tokens <= before_last + last or (tokens <= 1 and not steps)


def _mean_length(requests: Iterable[Sequence[DraftedStep]]) -> float | None:
    steps = [step for request in requests for step in request]
    drafted, accepted = (sum(step[i] for step in steps) for i in (0, 1))
    return AcceptanceCounts(len(steps), drafted, accepted, drafts=len(steps)).mean_length_per_draft()


def _first_of_each_cell(measurements: Iterable[Measurement]) -> dict[str, Measurement]:
    """A sound measurement where there is one, else a failed one, which has no traces."""
    first: dict[str, Measurement] = {}
    for measurement in sorted(measurements, key=lambda m: m.status != "ok"):
        first.setdefault(measurement.cell.id, measurement)
    return first


def _obstacles(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Why two runs would differ even on correct engines."""
    if "simulated" in a or "simulated" in b:
        return ["a simulation takes its acceptance from a scenario: give two runs in which engines ran"]
    found = []
    if a["target"]["digest"] != b["target"]["digest"]:
        found.append("they measured different targets")
    if a["workloads"] != b["workloads"]:
        found.append("they replayed different workload files")
    for method in a["drafters"].keys() & b["drafters"].keys():
        if a["drafters"][method] != b["drafters"][method]:
            found.append(f"the drafters of method {method} are different files")
    for name in _MUST_MATCH:
        x, y = a["config"].get(name), b["config"].get(name)
        if x != y:
            found.append(f"{name} is {x!r} in one and {y!r} in the other")
    if a["config"]["temperature"] != 0:
        found.append("at a temperature above 0 engines draw different tokens: measure both with --temperature 0")
    if a["config"]["dtype"] != "float32":
        found.append("outside float32 rounding decides some tokens: measure both with --dtype float32")
    return found
