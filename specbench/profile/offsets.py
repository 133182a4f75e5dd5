"""From what a drafter would propose at every position to the steps that a speculative run of any gamma takes.

The text of greedy decoding does not depend on speculation. So for a finished response it is known at every position
what each drafter would have proposed there and how much of it would have been kept; a run with gamma tokens per step
is then the walk t -> t + accepted + 1 through these positions. No run has to be made, and none is approximated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A prompt and what the target answered to it, greedily.

    response:   all that was emitted, the token that ended it included
    max_tokens: the length at which the response would have been cut; None where nothing is known of a limit
    category:   a name to break results down by
    """

    id: str
    prompt: Sequence[int]
    response: Sequence[int]
    max_tokens: int | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class DraftTable:
    """What a drafter proposes after t emitted tokens when it may propose k, for every t of one response and k up to a
    gamma.

    drafted: [gamma, N] tokens proposed, row k-1 for k · accepted: [gamma, N] those of them that the target keeps, up
    to the response's last token. Column 0 means nothing: the first token comes from the prefill.
    """

    drafted: Ints
    accepted: Ints

    @classmethod
    def of_runs(cls, runs: Ints, gamma: int, available: Ints | None = None) -> DraftTable:
        """For a drafter whose shorter drafts are beginnings of its longer ones.

        runs: [N] how many tokens from t on it would have right · available: [N] how many it has to propose there, None
        for one that always has enough
        """
        allowed = np.arange(1, gamma + 1)[:, None]
        drafted = np.broadcast_to(allowed, (gamma, len(runs))) if available is None else np.minimum(allowed, available)
        return cls(drafted, np.minimum(drafted, runs))

    @property
    def gamma(self) -> int:
        return len(self.drafted)


@dataclass(frozen=True, slots=True)
class Steps:
    """The verification steps of one request, in order.

    at:       [S] tokens emitted before the step · emitted: [S] by it
    drafted:  [S] tokens proposed · accepted: [S] those of them that were kept and emitted
    """

    at: Ints
    emitted: Ints
    drafted: Ints
    accepted: Ints

    @property
    def judged(self) -> Ints:
        """[S] proposed tokens that the verification came to: a response that ends inside an accepted prefix leaves the
        rest of its last draft unjudged."""
        return np.where(self.emitted > self.accepted, self.drafted, self.accepted)


def walk(table: DraftTable, transcript: Transcript, gamma: int) -> Steps:
    """The steps of a greedy run with this gamma, with the reference decoder's rules at the ends.

    A step emits one token more than it accepts, so the token limit allows a draft one token less than what is left.
    """
    length = len(transcript.response)
    drafted, accepted = table.drafted[gamma - 1].copy(), table.accepted[gamma - 1].copy()
    if transcript.max_tokens is not None:
        for t in range(max(1, transcript.max_tokens - gamma), length):
            allowed = transcript.max_tokens - t - 1
            drafted[t], accepted[t] = (
                (table.drafted[allowed - 1, t], table.accepted[allowed - 1, t]) if allowed else (0, 0)
            )
    visited = []
    kept, t = accepted.tolist(), 1
    while t < length:
        visited.append(t)
        t += kept[t] + 1
    at = np.array(visited, dtype=np.int64)
    return Steps(at, np.minimum(accepted[at] + 1, length - at), drafted[at], accepted[at])
