"""Verification of a batch of drafts: how many drafted tokens each row keeps, and the token that follows them.

Four exact verifiers (greedy, rejection, block, coupled): what they emit is distributed as the target's own tokens; and
`typical`, which is not. Each takes drafts of ragged length (a row's first -1 ends its draft) and gamma = 0, which is
plain decoding. None makes the host wait for a GPU. `verify_tree.py` has those of drafts that branch.

Each can be given `imposed` [B] int64, how many drafted tokens each row keeps (at most as many as it has): it does all
of its work and goes by that (`synthetic.py`). What it emits is then not the target's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from specbench.decoder import noise
from specbench.decoder.sampling import draw

_EPSILON, _DELTA = 0.09, 0.3


@dataclass(frozen=True, slots=True)
class Verified:
    """What a step commits: each row's first `accepted` drafted tokens, then its `next_token`.

    accepted:   [B] int64, 0..gamma
    next_token: [B] int64, the bonus token after a draft kept whole, else what replaces the first token rejected
    path:       [B, depth] int64, of a draft that branches the columns of its `Tree` that are kept, the first `accepted`
                of each row; None for a chain
    """

    accepted: Tensor
    next_token: Tensor
    path: Tensor | None = None


def greedy(target: Tensor, draft: Tensor, imposed: Tensor | None = None) -> Verified:
    """Keep the longest prefix of the draft that the target would have chosen itself; go on with the target's choice.

    target [B, γ+1] int64, the target's token at every position · draft [B, γ] int64, -1 = none
    """
    accepted = leading(draft == target[:, :-1])
    accepted = accepted if imposed is None else imposed
    return Verified(accepted, target.gather(1, accepted[:, None])[:, 0])


def rejection(
    p: Tensor, q: Tensor | None, draft: Tensor, seeds: Tensor, positions: Tensor, imposed: Tensor | None = None
) -> Verified:
    """Exact speculative sampling (Leviathan et al., 2023, Algorithm 1; correctness in Appendix A.1).

    p [B, γ+1, V] target probabilities after warping · q [B, γ, V] the distribution each drafted token was really drawn
    from, None = chosen without chance (one-hot) · draft [B, γ] int64, -1 = none · seeds [B] int64 ·
    positions [B, γ+1] int64, the absolute position of the token that p[b, i] predicts

    Token d is kept with probability min(1, p(d) / q(d)). The first one rejected is replaced by a draw from
    norm(max(p - q, 0)); where a draft ends unrejected, the next token is a draw from p. The drafter must sample with
    noise of its own (stream DRAFT): a replacement drawn with the noise that chose the draft would be biased.
    """
    rows = torch.arange(draft.shape[0], device=draft.device)
    drafted = draft.clamp_min(0)[:, :, None]
    p_drafted = p[:, :-1].gather(2, drafted)[:, :, 0]
    u = noise.uniform(seeds, positions[:, :-1], noise.ACCEPT)
    if q is not None:
        u = u * q.gather(2, drafted)[:, :, 0]  # u < p / q without the division, which fails where q = 0
    accepted = leading((u < p_drafted) & (draft >= 0))
    accepted = accepted if imposed is None else imposed

    target = p[rows, accepted]
    rejected = pad(draft, (0, 1), value=-1)[rows, accepted][:, None]  # -1 where nothing was
    if q is None or draft.shape[1] == 0:
        residual = target.scatter(1, rejected.clamp_min(0), 0.0)
    else:
        residual = (target - q[rows, accepted.clamp_max(draft.shape[1] - 1)]).clamp_min_(0)
    # Where p and q agree to the last bit nothing is left of the residual, and p itself is the limit.
    has_residual = (rejected >= 0) & (residual.sum(1, keepdim=True) > 0)
    e = noise.exponential(seeds, positions.gather(1, accepted[:, None]), noise.RESIDUAL, p.shape[2])[:, 0]
    return Verified(accepted, draw(residual.where(has_residual, target), e))


def block(
    p: Tensor, q: Tensor | None, draft: Tensor, seeds: Tensor, positions: Tensor, imposed: Tensor | None = None
) -> Verified:
    """Exact, and on average keeps at least as much as `rejection`: the draft is judged as a whole (Sun et al., 2024,
    "Block verification accelerates speculative decoding", Algorithm 2).

    Arguments as for `rejection`, but a drafter that samples needs new noise at every step (stream BLOCK): the verdict
    depends on tokens after the last one kept too, and the next step drafts again where they stood.

    With w_0 = 1 and w_i = min(1, w_(i-1) p(d_i) / q(d_i)) at least i tokens are kept with probability w_i: of a draft
    of n tokens the longest prefix i whose own test succeeds, which it does with probability h_n = w_n and
    h_i = s_i / (s_i + 1 - w_i), s_i the sum of max(w_i p - q, 0) over what may follow it. A draw from that, normalised,
    is the next token; after the whole draft it is one from p.
    """
    rows, gamma = torch.arange(draft.shape[0], device=draft.device), draft.shape[1]
    if gamma == 0:
        return rejection(p, q, draft, seeds, positions)
    is_drafted, drafted = draft >= 0, draft.clamp_min(0)[:, :, None]
    if q is None:
        q = torch.zeros_like(p[:, :-1]).scatter_(2, drafted, 1.0)
    tiny = torch.finfo(p.dtype).tiny
    ratios = p[:, :-1].gather(2, drafted)[:, :, 0] / q.gather(2, drafted)[:, :, 0].clamp_min(tiny)
    weights = [torch.ones_like(ratios[:, 0])]
    for ratio in ratios.where(is_drafted, 0.0).unbind(1):
        weights.append((weights[-1] * ratio).clamp_max(1.0))
    w = torch.stack(weights, 1)  # [B, γ+1], 0 past the end of a draft
    excess = (w[:, :-1, None] * p[:, :-1] - q).clamp_min_(0)  # [B, γ, V]: over what may follow each prefix but the last
    s = pad(excess.sum(2), (0, 1))
    goes_on = pad(is_drafted, (0, 1), value=False)
    h = (s / (s + 1 - w).clamp_min(tiny)).where(goes_on, w)[:, 1:]
    # One uniform number for all tests of a step. One per place would be used again where a later step tests there.
    u = noise.uniform(seeds, positions[:, :1], noise.ACCEPT)
    accepted = (u < 1 - (1 - h).flip(1).cumprod(1).flip(1)).sum(1)
    accepted = accepted if imposed is None else imposed

    residual = excess[rows, accepted.clamp_max(gamma - 1)]
    has_residual = goes_on[rows, accepted][:, None] & (residual.sum(1, keepdim=True) > 0)
    e = noise.exponential(seeds, positions.gather(1, accepted[:, None]), noise.RESIDUAL, p.shape[2])[:, 0]
    return Verified(accepted, draw(residual.where(has_residual, p[rows, accepted]), e))


def coupled(p: Tensor, draft: Tensor, seeds: Tensor, positions: Tensor, imposed: Tensor | None = None) -> Verified:
    """Speculative sampling that emits the same tokens for a seed under every drafter and gamma, plain decoding too.

    p [B, γ+1, V] target probabilities after warping · draft [B, γ] int64, -1 = none · seeds [B] int64 ·
    positions [B, γ+1] int64, the absolute position of the token that p[b, i] predicts

    One noise vector E per position fixes the target's token there, argmax p / E; a drafted token is kept if it is that
    one. A drafter that samples should use the same noise (stream TARGET). It then agrees with the target with
    probability between (1 - TV) / (1 + TV) and 1 - TV, TV the total variation between p and q (Daliri et al., 2024,
    "Coupling without communication and drafter-invariant speculative decoding"); `rejection` reaches 1 - TV.
    """
    return greedy(draw(p, noise.exponential(seeds, positions, noise.TARGET, p.shape[2])), draft, imposed)


def typical(p: Tensor, draft: Tensor, seeds: Tensor, positions: Tensor, imposed: Tensor | None = None) -> Verified:
    """Not exact: keeps drafted tokens that are likely enough, in other proportions than the target's (`is_typical`).

    Arguments as for `coupled`. After the tokens kept comes a draw from p. Under temperature 0 it is `greedy`.
    """
    rows = torch.arange(draft.shape[0], device=draft.device)
    accepted = leading(is_typical(p[:, :-1], draft))
    accepted = accepted if imposed is None else imposed
    e = noise.exponential(seeds, positions.gather(1, accepted[:, None]), noise.RESIDUAL, p.shape[2])[:, 0]
    return Verified(accepted, draw(p[rows, accepted], e))


def is_typical(p: Tensor, draft: Tensor) -> Tensor:
    """Whether p(d) > min(ε, δ exp(-H(p))), the typical acceptance of Medusa (Cai et al., 2024) with its ε 0.09, δ 0.3.

    p [B, w, V], what the target thinks of each place · draft [B, w], -1 = none -> [B, w] bool
    """
    entropy = torch.special.entr(p).sum(2)
    least = (_DELTA * torch.exp(-entropy)).clamp_max_(_EPSILON)
    return (p.gather(2, draft.clamp_min(0)[:, :, None])[:, :, 0] > least) & (draft >= 0)


def leading(ok: Tensor) -> Tensor:
    """How many hold before the first that does not. ok [B, γ] bool -> [B] int64"""
    return ok.long().cumprod(1).sum(1)
