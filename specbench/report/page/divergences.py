"""The first divergences as a person reads them: the text up to there, and how each side goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from specbench.analysis.summary import DivergenceExample, RunSummary
from specbench.equivalence.greedy import Divergence
from specbench.replay.records import RequestTrace
from specbench.speculation import BASELINE
from specbench.store.measurement import Measurement

_LETTERS = 60


@dataclass(frozen=True, slots=True)
class DivergentText:
    """before: the end of what both outputs share;  baseline, output: how each goes on. None where no text is stored."""

    example: DivergenceExample
    before: str | None = None
    baseline: str | None = None
    output: str | None = None


def divergent_texts(summary: RunSummary, measurements: Sequence[Measurement]) -> list[DivergentText]:
    """An entry per divergence of the summary, in its order."""
    return [_text(example, measurements) for example in summary.divergences]


def _text(example: DivergenceExample, measurements: Sequence[Measurement]) -> DivergentText:
    found = next(_outputs(example, measurements), None)
    if found is None:
        return DivergentText(example)
    baseline, output = (trace.text for trace in found)
    shared = next(
        (i for i, (a, b) in enumerate(zip(baseline, output, strict=False)) if a != b), min(map(len, (baseline, output)))
    )
    if shared == len(baseline) == len(output):  # a token without a visible text
        return DivergentText(example)
    ends = (text[shared : shared + _LETTERS] for text in (baseline, output))
    return DivergentText(example, baseline[max(0, shared - _LETTERS) : shared], *ends)


def _outputs(
    example: DivergenceExample, measurements: Sequence[Measurement]
) -> Iterator[tuple[RequestTrace, RequestTrace]]:
    """Baseline's and cell's traces of the request that diverged."""
    divergence = example.divergence
    for m in measurements:
        if m.cell.id != example.cell:
            continue
        plain = replace(m.cell, speculation=BASELINE)
        references = sorted(
            (b for b in measurements if b.cell == plain and b.traces), key=lambda b: (b.replicate, b.repeat)
        )
        pair = [next((t for t in x.traces if t.index == divergence.index), None) for x in (*references[:1], m)]
        match pair:
            case [RequestTrace() as ours, RequestTrace() as theirs] if _token(theirs, divergence) == divergence.token:
                yield ours, theirs


def _token(trace: RequestTrace, divergence: Divergence) -> int | None:
    ids = trace.token_ids or ()
    return ids[divergence.position] if divergence.position < len(ids) else None
