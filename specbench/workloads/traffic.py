"""Traffic: when requests came to a deployment, and how long their prompts and outputs were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests in order of arrival; arrays of one length.

    arrival:       seconds since the first, float64, never falling
    prompt_tokens, output_tokens: int32, at least 1
    session:       int64, equal for requests that share the beginning of their prompts (turns of a conversation, one
                   system prompt); None where the source does not say
    """

    arrival: NDArray[np.float64]
    prompt_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    session: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.arrival)
