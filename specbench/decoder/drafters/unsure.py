"""Where a drafter that knows its tokens' probabilities ends a draft."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


class UnsureStop:
    """Ends each row's draft after the first token to which the drafter gave less than `below`, before temperature,
    top-k and top-p. That token stays in the draft: to drop it would bias what comes out.

    limits: [B] tokens that each row drafts, by what is known so far
    """

    def __init__(self, below: float, limits: Sequence[int]) -> None:
        self._below = below
        self.limits = list(limits)

    def is_over(self, number: int, logits: Tensor, tokens: Tensor, token_ids: Tensor | None) -> bool:
        """Whether no row drafts on after its `number`-th token. The host waits for a GPU here.

        logits [B, 1, V_d] that it was chosen by · tokens [B, 1], of the target's vocabulary · token_ids [V_d] as in
        `choose`
        """
        chosen = tokens if token_ids is None else (tokens == token_ids).long().argmax(-1, keepdim=True)
        given = logits[:, -1].float().softmax(-1).gather(1, chosen)[:, 0]
        for row, probability in enumerate(given.tolist()):
            if probability < self._below:
                self.limits[row] = min(self.limits[row], number)
        return max(self.limits) <= number
