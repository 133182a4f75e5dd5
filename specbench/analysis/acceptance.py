"""Acceptance over many requests: pooled counts, the rates that need single steps, and the check against the engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from specbench.acceptance import AcceptanceCounts
from specbench.replay.records import RequestTrace

_Ints = npt.NDArray[np.int64]
_FULL = 0.99


@dataclass(frozen=True, slots=True)
class PooledAcceptance:
    """Counts summed over requests (`counts`), and what only single steps can tell.

    rejections: steps in which a drafted token was refused; None where the engine reports sums alone
    conditional: P(token k accepted, given that k-1 were and that a token k was judged), length gamma; None within it
        where no step got so far, None as a whole where the engine gives no positions
    mean_length_per_request: mean over requests of each request's own mean acceptance length
    """

    counts: AcceptanceCounts
    rejections: int | None
    conditional: tuple[float | None, ...] | None
    mean_length_per_request: float | None

    def alpha(self) -> float | None:
        """Pooled estimate of the per-token acceptance probability: accepted / (accepted + rejections).

        The maximum-likelihood estimate when every judged token is kept with the same probability (the model of
        Leviathan et al., 2023, section 3); it does not depend on gamma if the drafter is uniform over positions.
        """
        if self.rejections is None:
            return None
        judged = self.counts.accepted + self.rejections
        return self.counts.accepted / judged if judged else None

    def drafts_are_full(self, gamma: int) -> bool:
        """Whether as good as every step had gamma tokens to judge; token limits cut a few drafts short."""
        drafted = self.counts.drafted
        return gamma > 0 and drafted is not None and drafted >= _FULL * gamma * self.counts.steps


def from_requests(traces: Iterable[RequestTrace], gamma: int) -> PooledAcceptance | None:
    """Pool the per-request acceptance of some traces; None where no request carries any.

    A request that ends inside an accepted prefix (end of sequence, token limit) leaves the rest of its last draft
    unjudged: that step is no rejection. Such a request is known by emitting one token fewer than 1 (prefill) + steps +
    accepted. One that is shorter still comes from an engine that counts what it judged, emitted or not: there the last
    step stands as it is.
    """
    reported = [(t, t.acceptance) for t in traces if t.acceptance is not None]
    if not reported:
        return None
    steps, accepted = (sum(getattr(a, name) for _, a in reported) for name in ("steps", "accepted"))
    drafted = _sum_if_known(a.drafted for _, a in reported)
    lengths = [1 + a.accepted / a.steps for _, a in reported if a.steps]
    mean_length = float(np.mean(lengths)) if lengths else None
    if any(a.per_step_drafted is None or a.per_step_accepted is None for _, a in reported):
        positions = _sum_positions([a.by_position for _, a in reported])
        return _pool(AcceptanceCounts(steps, drafted, accepted, by_position=positions), gamma, mean_length)
    step_drafted = _concatenate(a.per_step_drafted for _, a in reported)
    step_accepted = _concatenate(a.per_step_accepted for _, a in reported)
    judged = step_drafted.copy()
    last_steps = np.cumsum([len(a.per_step_drafted or ()) for _, a in reported]) - 1
    cut = [i for i, (t, a) in zip(last_steps, reported, strict=True) if a.steps and _was_cut(t)]
    judged[cut] = step_accepted[cut]
    by_position = [int(np.sum(step_accepted > k)) for k in range(gamma)]
    at_risk = [int(np.sum((judged > k) & (step_accepted >= k))) for k in range(gamma)]
    return PooledAcceptance(
        AcceptanceCounts(steps, drafted, accepted, int(np.sum(step_drafted > 0)), tuple(by_position)),
        rejections=int(np.sum(step_accepted < judged)),
        conditional=_ratios(by_position, at_risk),
        mean_length_per_request=mean_length,
    )


def longest_draft(traces: Iterable[RequestTrace]) -> int:
    """The most tokens that were proposed in a step, for servers that do not say their gamma; 0 where none tells."""
    told = [t.acceptance for t in traces if t.acceptance is not None]
    return max((max(a.per_step_drafted or (len(a.by_position or ()),), default=0) for a in told), default=0)


def from_counters(counts: Sequence[AcceptanceCounts]) -> PooledAcceptance | None:
    """Pool counter differences of several measurements, for engines that say nothing of single requests.

    Rejections and conditional acceptance are known only when every draft had gamma tokens: sums do not tell a token
    that was refused from one that was never drafted.
    """
    if not counts:
        return None
    total = _sum(counts)
    return _pool(total, len(total.by_position or ()), None)


def _pool(total: AcceptanceCounts, gamma: int, mean_length: float | None) -> PooledAcceptance:
    """From sums alone: a step's fate follows from the positions where every draft had gamma tokens."""
    drafts = total.steps if total.drafts is None else total.drafts
    if not total.by_position or total.drafted != gamma * drafts:
        return PooledAcceptance(total, None, None, mean_length)
    return PooledAcceptance(
        total,
        rejections=drafts - total.by_position[-1],
        conditional=_ratios(total.by_position, (drafts, *total.by_position[:-1])),
        mean_length_per_request=mean_length,
    )


def up_to_the_end(trace: RequestTrace) -> RequestTrace:
    """The trace with its last step's accepted tokens counted as far as they were emitted.

    vLLM counts a last draft whole, what lies behind an end of sequence or the token limit too (vllm#56101). Nobody got
    these tokens, and engines that leave them out would compare worse. Known by tokens fewer than steps + accepted.
    """
    a = trace.acceptance
    if a is None or not a.per_step_accepted or trace.error is not None:
        return trace
    behind_the_end = a.steps + a.accepted - trace.output_tokens
    *others, last = a.per_step_accepted
    if not 0 < behind_the_end <= last:
        return trace
    kept = last - behind_the_end
    return replace(
        trace, acceptance=replace(a, accepted=a.accepted - behind_the_end, per_step_accepted=(*others, kept))
    )


def by_category(traces: Iterable[RequestTrace], gamma: int) -> dict[str, PooledAcceptance]:
    """`from_requests` for each category of the workload, alphabetically; requests without one are left out."""
    groups: dict[str, list[RequestTrace]] = defaultdict(list)
    for trace in traces:
        if trace.category is not None:
            groups[trace.category].append(trace)
    pooled = {name: from_requests(groups[name], gamma) for name in sorted(groups)}
    return {name: acceptance for name, acceptance in pooled.items() if acceptance is not None}


def relative_difference(requests: AcceptanceCounts, counters: AcceptanceCounts, ended: int = 0) -> float:
    """Largest relative difference of steps, drafted and accepted between per-request sums and engine counters.

    Steps are those that had a draft where both sides know them: an engine may count no others.
    ended: requests in them. A side that does not say what was drafted has taken its accepted tokens from the output,
        which is one short of them where it ended inside an accepted draft: so much each request may differ.
    """
    both = requests.drafts is not None and counters.drafts is not None
    pairs = [
        (requests.drafts or 0, counters.drafts or 0) if both else (requests.steps, counters.steps),
    ]
    if requests.drafted is not None and counters.drafted is not None:
        pairs += [(requests.drafted, counters.drafted), (requests.accepted, counters.accepted)]
    else:
        unexplained = max(0, abs(requests.accepted - counters.accepted) - ended)
        pairs.append((counters.accepted, counters.accepted + unexplained))
    return max(abs(a - b) / max(a, b, 1) for a, b in pairs)


def breaks_token_identity(trace: RequestTrace) -> bool:
    """Whether a request's tokens are not 1 (prefill) + steps + accepted, less what cut the last step short.

    A step gives one token at least, so that no more can be missing than its accepted ones (the reference decoder
    counts these as far as they were emitted, vLLM all); one, where the engine does not list its steps.
    """
    if trace.acceptance is None or trace.error is not None or not trace.output_tokens:
        return False
    expected = 1 + trace.acceptance.steps + trace.acceptance.accepted
    last_step = (trace.acceptance.per_step_accepted or (1,))[-1]
    return not expected - max(last_step, 1) <= trace.output_tokens <= expected


def _was_cut(trace: RequestTrace) -> bool:
    a = trace.acceptance
    return a is not None and trace.output_tokens == a.steps + a.accepted


def _concatenate(lists: Iterable[tuple[int, ...] | None]) -> _Ints:
    return np.array([value for values in lists for value in values or ()], dtype=np.int64)


def _ratios(numerators: Sequence[int], denominators: Sequence[int]) -> tuple[float | None, ...]:
    return tuple(n / d if d else None for n, d in zip(numerators, denominators, strict=True))


def _sum(counts: Sequence[AcceptanceCounts]) -> AcceptanceCounts:
    return AcceptanceCounts(
        steps=sum(c.steps for c in counts),
        drafted=_sum_if_known(c.drafted for c in counts),
        accepted=sum(c.accepted for c in counts),
        drafts=_sum_if_known(c.drafts for c in counts),
        by_position=_sum_positions([c.by_position for c in counts]),
    )


def _sum_if_known(values: Iterable[int | None]) -> int | None:
    """None where any of them is."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _sum_positions(positions: Sequence[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """Position by position; None where any of them is."""
    if not all(positions):
        return None
    return tuple(sum(at) for at in zip(*(p or () for p in positions), strict=True))
