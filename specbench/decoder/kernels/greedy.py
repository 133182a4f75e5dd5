"""Greedy verification from logits, without a softmax: `verify.greedy` of their argmax is the twin."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from specbench.decoder import verify
from specbench.decoder.kernels.launch import launch
from specbench.decoder.kernels.vocabulary import BLOCK, best_of, blocks
from specbench.decoder.verify import Verified


def greedy(logits: Tensor, draft: Tensor, imposed: Tensor | None = None, block: int = BLOCK) -> Verified:
    """Keep the longest prefix of each draft that the target would have chosen itself.

    logits [B, γ+1, V], contiguous · draft [B, γ] int64, contiguous, -1 = none · imposed [B] int64, as in `verify`
    """
    batch, gamma = draft.shape
    found = blocks(logits, None, block)
    accepted, next_token = draft.new_empty(batch), draft.new_empty(batch)
    launch(
        _walk, (batch,), found.largest, found.tokens, draft, accepted if imposed is None else imposed, accepted,
        next_token, GAMMA=gamma, GIVEN=imposed is not None, COUNT=found.count,
        SPAN=triton.next_power_of_2(found.count), warps=1,
    )  # fmt: skip
    return Verified(accepted, next_token)


def greedy_twin(logits: Tensor, draft: Tensor, imposed: Tensor | None = None) -> Verified:
    return verify.greedy(logits.argmax(-1), draft, imposed)


@triton.jit
def _walk(
    largest, tokens, draft, imposed, accepted, next_token,
    GAMMA: tl.constexpr, GIVEN: tl.constexpr, COUNT: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    first = b * (GAMMA + 1)
    kept = tl.zeros((), tl.int32)
    for i in tl.static_range(GAMMA):
        _, choice = best_of(largest, tokens, first + i, COUNT, SPAN)
        hit = (kept == i) & (tl.load(draft + b * GAMMA + i) == choice)
        kept += hit.to(tl.int32)
    if GIVEN:
        kept = tl.load(imposed + b).to(tl.int32)
    _, choice = best_of(largest, tokens, first + kept, COUNT, SPAN)
    tl.store(accepted + b, kept.to(tl.int64))
    tl.store(next_token + b, choice.to(tl.int64))
