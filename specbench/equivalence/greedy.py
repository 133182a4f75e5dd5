"""Are outputs unchanged? Token ids against the baseline of the same batch size; how near to ties differences are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from specbench.replay.records import RequestTrace

_SAMPLED = "sampled outputs differ by chance at temperature > 0 under rejection verification"

AS_TEXT = "compared as text"
"""In a verdict's detail where token ids were not to be had: two outputs of one text may still be of other tokens."""

Verdict = Literal["EXACT", "NEAR_TIE", "DIVERGENT", "NOT_CHECKED"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first token at which a request's output differs from the baseline's.

    position: 0-based in the output, a token's, or a character's where only text is known;  a token is None where that
        output has ended, or is not known
    margin:   log p_max - log p(token) under the baseline at that position; None where it was not asked for, or the
        token is not among the log-probabilities given
    """

    index: int
    prompt_id: str
    position: int
    baseline_token: int | None
    token: int | None
    margin: float | None = None

    def is_near_tie(self, epsilon: float | None) -> bool:
        """Whether rounding explains it: the baseline itself held both tokens for as good as equal."""
        return self.margin is not None and epsilon is not None and self.margin <= epsilon


@dataclass(frozen=True, slots=True)
class Comparison:
    """Outputs of one measurement against those of another.

    prompts:     ids of the prompts compared;  requests: how many requests that were
    uncompared:  requests that one side lacks, that failed, or whose token ids only one side knows; and turns of a
        conversation that had gone apart before
    by_text:     how many of `requests` were compared as text, since neither side knows token ids
    """

    prompts: frozenset[str]
    requests: int
    uncompared: int
    divergences: tuple[Divergence, ...]
    by_text: int = 0


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The verdict on a cell, the worst of its requests, and a sentence that says what it rests on.

    unprobed: how many of `divergent` the baseline could not be asked about: bugs or rounding, nobody knows
    """

    verdict: Verdict
    prompts: int
    requests: int
    near_ties: tuple[Divergence, ...]
    divergent: tuple[Divergence, ...]
    detail: str
    unprobed: int = 0


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """How often the baseline differs from itself, at another batch size or run again: no method can do better.

    compared: requests compared, over all pairs of measurements;  differing: those whose outputs were not the same
    """

    compared: int
    differing: int

    @property
    def rate(self) -> float | None:
        return self.differing / self.compared if self.compared else None


@dataclass(frozen=True, slots=True)
class Margins:
    """Log-probability margins that the sweep asked the baseline for, after the timed cells.

    epsilon:  margins up to this are near ties: the q99.9 of the change of the baseline's own margins at another batch
        size; None where it was not measured
    by_divergence: (cell id, prompt id, position, token) -> margin
    """

    epsilon: float | None = None
    by_divergence: Mapping[tuple[str, str, int, int | None], float | None] = field(default_factory=dict)

    @classmethod
    def from_json(cls, record: Mapping[str, Any] | None) -> Margins:
        """From a run's equivalence.json; no margins where the run has none."""
        if record is None:
            return cls()
        rows = record.get("margins", [])
        keyed = {(row["cell"], row["prompt_id"], row["position"], row["token"]): row["margin"] for row in rows}
        return cls(record.get("epsilon"), keyed)

    def of(self, cell_id: str, divergence: Divergence) -> Divergence:
        """The divergence with its margin, where that was asked for."""
        return replace(divergence, margin=self.by_divergence.get(self._key(cell_id, divergence)))

    def probed(self, cell_id: str, divergence: Divergence) -> bool:
        """Whether the baseline was asked, so that a margin it did not give means that it held the token for unlikely.

        An output that ended has no token to ask for, and without an epsilon no margin tells rounding from a bug.
        """
        asked = self._key(cell_id, divergence) in self.by_divergence
        return asked and self.epsilon is not None and divergence.token is not None

    @staticmethod
    def _key(cell_id: str, divergence: Divergence) -> tuple[str, str, int, int | None]:
        return cell_id, divergence.prompt_id, divergence.position, divergence.token


def first_divergence(baseline: Sequence[int], output: Sequence[int]) -> int | None:
    """Position of the first difference; lengths count, so an output that merely ends earlier differs at its end."""
    for position, (expected, token) in enumerate(zip(baseline, output, strict=False)):
        if expected != token:
            return position
    return None if len(baseline) == len(output) else min(len(baseline), len(output))


def compare(baseline: Iterable[RequestTrace], outputs: Iterable[RequestTrace]) -> Comparison:
    """Compare two measurements of one batch size request by request (`index`), by token ids; by text where neither has
    any.
    """
    expected = {t.index: t for t in baseline}
    given = {t.index: t for t in outputs}
    prompts, divergences, uncompared, by_text = set(), [], 0, 0
    apart: set[int] = set()  # whose answers differ or are not known, so that what was asked next was not the same
    for index in sorted(expected.keys() | given.keys()):
        a, b = expected.get(index), given.get(index)
        if a is None or b is None or not _comparable(a, b) or b.follows in apart:
            uncompared += 1
            apart.add(index)
            continue
        by_text += a.token_ids is None
        prompts.add(b.prompt_id)
        if (divergence := _divergence(a, b)) is not None:
            divergences.append(divergence)
            apart.add(index)
    compared = len(expected.keys() | given.keys()) - uncompared
    return Comparison(frozenset(prompts), compared, uncompared, tuple(divergences), by_text)


def judge(
    cell_id: str,
    baseline: Iterable[RequestTrace] | None,
    outputs: Iterable[Iterable[RequestTrace]],
    margins: Margins,
    *,
    seeded: bool,
) -> Equivalence:
    """The verdict on a cell: each of its measurements (`outputs`) against one measurement of the baseline.

    seeded: whether the same seed must give the same tokens: at temperature 0, and under coupled verification at any
        temperature. Elsewhere only distributions can be compared, and the verdict is NOT_CHECKED.
    """
    if not seeded:
        return not_checked(_SAMPLED)
    if baseline is None:
        return not_checked("there is no baseline of this batch size to compare with")
    baseline = tuple(baseline)
    comparisons = [compare(baseline, traces) for traces in outputs]
    requests = sum(c.requests for c in comparisons)
    if not requests:
        return not_checked("no request was answered on both sides")
    found = [margins.of(cell_id, d) for c in comparisons for d in c.divergences]
    near_ties = tuple(d for d in found if d.is_near_tie(margins.epsilon))
    divergent = tuple(d for d in found if not d.is_near_tie(margins.epsilon))
    unprobed = sum(not margins.probed(cell_id, d) for d in divergent)
    prompts = len(frozenset[str]().union(*(c.prompts for c in comparisons)))
    uncompared = sum(c.uncompared for c in comparisons)
    return Equivalence(
        verdict="DIVERGENT" if divergent else "NEAR_TIE" if near_ties else "EXACT",
        prompts=prompts,
        requests=requests,
        near_ties=near_ties,
        divergent=divergent,
        detail=_detail(prompts, requests, uncompared, near_ties, divergent, unprobed, margins.epsilon)
        + _as_text(sum(c.by_text for c in comparisons)),
        unprobed=unprobed,
    )


def judge_baseline(runs: Sequence[Sequence[RequestTrace]], *, seeded: bool) -> Equivalence:
    """The baseline is what others are held against: EXACT as long as its runs at one batch size agree.

    Where they do not, nothing is wrong with any speculation: the row is NOT_CHECKED and `noise_floor` says how often.
    """
    if not seeded:
        return not_checked(_SAMPLED)
    if not any(_output(t) for traces in runs for t in traces):
        return not_checked("the server gives neither token ids nor text")
    own = noise_floor(runs)
    if own.differing:
        return not_checked(f"the baseline does not reproduce itself: {own.differing} of {own.compared} outputs differ")
    prompts = len({t.prompt_id for t in runs[0]})
    again = f"; run again, all {own.compared} outputs are the same" if own.compared else ""
    return Equivalence("EXACT", prompts, len(runs[0]), (), (), f"the reference that others are compared with{again}")


def divergence_bound(prompts: int) -> float:
    """Upper 95% bound on the rate of divergent prompts after none in `prompts`: 1 - 0.05^(1/n) (exact binomial)."""
    return 1.0 - math.pow(0.05, 1 / prompts)


def noise_floor(baselines: Sequence[Sequence[RequestTrace]]) -> NoiseFloor:
    """The first baseline measurement against all others (batch sizes, replicates, repeats), request by request.

    Request i is the same prompt with the same seed at every batch size; larger ones merely have more requests. First
    turns only: what is asked next depends on the answers.
    """
    if len(baselines) < 2:
        return NoiseFloor(0, 0)
    reference, *others = (
        {(t.index, t.prompt_id): _output(t) for t in traces if t.follows is None} for traces in baselines
    )
    pairs = [(ids, other.get(key)) for other in others for key, ids in reference.items()]
    known = [a == b for a, b in pairs if a is not None and b is not None]
    return NoiseFloor(len(known), known.count(False))


def _output(trace: RequestTrace) -> tuple[int, ...] | str | None:
    """Token ids, else text; None of a request that failed."""
    if trace.error is not None:
        return None
    return trace.text if trace.token_ids is None else trace.token_ids


def _comparable(a: RequestTrace, b: RequestTrace) -> bool:
    return a.error is None and b.error is None and (a.token_ids is None) == (b.token_ids is None)


def _divergence(baseline: RequestTrace, output: RequestTrace) -> Divergence | None:
    if baseline.token_ids is None or output.token_ids is None:
        position = first_divergence([*map(ord, baseline.text)], [*map(ord, output.text)])
        return None if position is None else Divergence(output.index, output.prompt_id, position, None, None)
    expected, tokens = baseline.token_ids, output.token_ids
    position = first_divergence(expected, tokens)
    if position is None:
        return None
    at = slice(position, position + 1)
    return Divergence(
        output.index, output.prompt_id, position, next(iter(expected[at]), None), next(iter(tokens[at]), None)
    )


def _as_text(requests: int) -> str:
    return f"; {requests} {AS_TEXT}, the server gives no token ids" if requests else ""


def not_checked(reason: str) -> Equivalence:
    return Equivalence("NOT_CHECKED", 0, 0, (), (), f"not checked: {reason}")


def _detail(
    prompts: int,
    requests: int,
    uncompared: int,
    near_ties: Sequence[Divergence],
    divergent: Sequence[Divergence],
    unprobed: int,
    epsilon: float | None,
) -> str:
    if divergent:
        first = divergent[0]
        unit = "character" if first.token is None and first.baseline_token is None else "token"
        text = f"{len(divergent)} of {requests} requests differ, first at {unit} {first.position} of {first.prompt_id}"
        if unprobed:
            text += f"; {unprobed} not probed, so rounding is not shown to explain them"
    elif near_ties:
        widest = max(d.margin or 0.0 for d in near_ties)
        text = f"{len(near_ties)} of {requests} requests differ, at near ties (margin ≤ {widest:.3g}, ε {epsilon:.3g})"
    else:
        text = f"all {requests} requests identical"
    if not divergent:
        text += f"; 0 divergent in {prompts} prompts bounds the rate below {divergence_bound(prompts):.1%} (95% sure)"
    return f"{text}; {uncompared} requests not compared" if uncompared else text
