"""Bugs that real engines have had, planted into the reference decoder; and draws from it, as `specbench verify` has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from specbench.decoder import noise, verifier, verify
from specbench.decoder.batch import Batch
from specbench.decoder.drafters import chain
from specbench.decoder.drafters.choose import choose
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams, Warp, draw, warp
from specbench.decoder.verify import Verified
from specbench.equivalence.sampling.observations import Distribution, Draw, Known, Place, Tokens

STALE_SHARE = 0.3
TOP = 20


class Patch(Protocol):
    """pytest's MonkeyPatch, as far as it is used here."""

    def setattr(self, target: object, name: str, value: object) -> None: ...


def textbook(
    p: Tensor,
    q: Tensor | None,
    draft: Tensor,
    seeds: Tensor,
    positions: Tensor,
    imposed: Tensor | None = None,
    keeps: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda u, p, q: u * q < p,
    residual: Callable[[Tensor, Tensor], Tensor] = lambda p, q: (p - q).clamp_min(0),
    bonus: Callable[[Tensor, Tensor], Tensor] = lambda p, q: p,
    residual_stream: int = noise.RESIDUAL,
) -> Verified:
    """Algorithm 1 of Leviathan et al. (2023), with a place for each bug. Without a draft it is plain decoding."""
    if q is None:
        return verify_rejection(p, q, draft, seeds, positions)
    rows, gamma = torch.arange(draft.shape[0]), draft.shape[1]
    at = draft.clamp_min(0)[..., None]
    u = noise.uniform(seeds, positions[:, :-1], noise.ACCEPT)
    kept = keeps(u, p[:, :-1].gather(2, at)[..., 0], q.gather(2, at)[..., 0]) & (draft >= 0)
    accepted = kept.long().cumprod(1).sum(1)
    ends = torch.cat([draft >= 0, torch.zeros(draft.shape[0], 1, dtype=torch.bool)], 1)
    was_rejected = ends[rows, accepted][:, None]
    was_drafted = (draft[:, :1] >= 0).expand(-1, p.shape[2])
    p_there, q_there = p[rows, accepted], q[rows, accepted.clamp_max(gamma - 1)]
    after = bonus(p_there, q_there).where(was_drafted, p_there)
    there = residual(p_there, q_there).where(was_rejected, after)
    there = there.where(there.sum(1, keepdim=True) > 0, p_there)
    e = noise.exponential(seeds, positions[rows, accepted][:, None], residual_stream, p.shape[2])[:, 0]
    return Verified(accepted, draw(there, e))


verify_rejection = verify.rejection


def _in_place_of_rejection(verifier: Callable[..., Verified]) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(verify, "rejection", verifier)


def _raw_draft_probabilities(patch: Patch) -> None:
    """The draft is drawn after temperature and top-p, and verified by what it was before them."""

    def chosen(
        batch: Batch, logits: Tensor, positions: Tensor, vocab_size: int, token_ids: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        tokens, q = choose(batch, logits, positions, vocab_size, token_ids)
        return tokens, None if q is None else logits.float().softmax(-1)

    patch.setattr(chain, "choose", chosen)


def _stale_cache(patch: Patch) -> None:
    """In 30 % of the steps of a row the target sees other entries in the place of its last few tokens."""
    advance = Engine._advance
    generator = torch.Generator().manual_seed(5)

    def advanced(engine: Engine) -> object:
        entries, true = engine.cache.entries, []
        for row, sequence in enumerate(engine._rows):
            if sequence is not None and torch.rand((), generator=generator) < STALE_SHARE:
                end = len(sequence.tokens) - 1
                true.append((row, slice(end - 3, end), entries[:, row, end - 3 : end].clone()))
                entries[:, row, end - 3 : end] = entries[:, row, :3].clone()
        outputs = advance(engine)
        for row, slots, values in true:
            entries[:, row, slots] = values
        return outputs

    patch.setattr(Engine, "_advance", advanced)


def _no_top_p_for_the_target(patch: Patch) -> None:
    def warped(logits: Tensor, rows: Warp) -> Tensor:
        return warp(logits, replace(rows, top_p=torch.ones_like(rows.top_p), any_top_p=False))

    patch.setattr(verifier, "warp", warped)


VERIFIERS: dict[str, Callable[..., Verified]] = {
    "residual from the target": partial(textbook, residual=lambda p, q: p),
    "residual (q - p)+": partial(textbook, residual=lambda p, q: (q - p).clamp_min(0)),
    "acceptance inverted": partial(textbook, keeps=lambda u, p, q: u * p < q),
    "always accept": partial(textbook, keeps=lambda u, p, q: u < 2),
    "bonus from the draft": partial(textbook, bonus=lambda p, q: q),
    "accept u < p": partial(textbook, keeps=lambda u, p, q: u < p),
    "residual reuses the draft's noise": partial(textbook, residual_stream=noise.DRAFT),
}
"""In the place of `verify.rejection`."""

BUGS: dict[str, Callable[[Patch], None]] = {
    **{name: _in_place_of_rejection(verifier) for name, verifier in VERIFIERS.items()},
    "draft temperature and top-p ignored in the ratio": _raw_draft_probabilities,
    "stale KV in 30 % of steps": _stale_cache,
    "the target's top-p missing": _no_top_p_for_the_target,
}


def sample(engine: Engine, contexts: Sequence[Tokens], count: int, width: int, params: SamplingParams) -> list[Draw]:
    """`count` outputs of `width` tokens at each context, with their steps; every output has a seed of its own."""
    tokens: dict[str, list[int]] = {}
    steps: dict[str, list[tuple[int, int]]] = {}
    for number in range(count * len(contexts)):
        own = replace(params, seed=params.seed + number, max_tokens=width)
        engine.add(Request(str(number), contexts[number % len(contexts)], own))
        tokens[str(number)], steps[str(number)] = [], []
    while engine.has_work:
        for output in engine.step():
            tokens[output.request_id] += output.token_ids
            if not output.first:
                steps[output.request_id].append((output.drafted, output.accepted))
    return [Draw(int(i) % len(contexts), tuple(tokens[i]), tuple(steps[i])) for i in tokens]


def probabilities(
    target: Path, contexts: Sequence[Tokens], places: Sequence[Place], params: SamplingParams, rows: int = 64
) -> Known:
    """What the target would draw at these places, by its processed log-probabilities, as a server tells them."""
    engine = load_engine(target, max_batch_size=rows, max_model_len=96, logprobs_mode="processed")
    known: dict[Place, Distribution] = {}
    for number, (context, prefix) in enumerate(places):
        own = replace(params, max_tokens=1, logprobs=TOP)
        engine.add(Request(str(number), contexts[context] + prefix, own))
    while engine.has_work:
        for output in engine.step():
            assert output.logprobs is not None
            known[places[int(output.request_id)]] = Distribution.from_logprobs(dict(output.logprobs[0].top))
    return known
