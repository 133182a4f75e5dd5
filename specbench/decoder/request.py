"""A request, the sequence it becomes while it occupies a row, and what each step gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from specbench.decoder.sampling import SamplingParams

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Request:
    """What to decode.

    stops: asked with every emitted token in turn; True ends the request at that token (for stop strings, which only
           those who know the text can see)
    """

    id: str
    prompt_ids: Sequence[int]
    params: SamplingParams
    stops: Callable[[int], bool] | None = None


@dataclass(frozen=True, slots=True)
class Logprob:
    """Natural-log probability of an emitted token, and those of the most likely tokens there."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What one step gave one request.

    token_ids: emitted now, 1..gamma+1 of them
    logprobs:  one per token, None unless asked for
    drafted, accepted: tokens proposed in this step, and those of them that were emitted
    gamma:     what the policy let it draft, whatever was found and fitted; None where there is no policy
    first:     the tokens came from the prompt's prefill, which is no step of speculation
    """

    request_id: str
    token_ids: tuple[int, ...]
    logprobs: tuple[Logprob, ...] | None = None
    finish_reason: FinishReason | None = None
    drafted: int = 0
    accepted: int = 0
    gamma: int | None = None
    first: bool = False


class RequestFailed(Exception):
    """A request that failed while it was being admitted. The engine has dropped it, and goes on with the others."""

    def __init__(self, request_id: str, cause: Exception) -> None:
        super().__init__(f"this request could not be begun ({type(cause).__name__}: {cause}).")
        self.request_id = request_id


@dataclass(slots=True)
class SequenceState:
    """A request in its row. `tokens` is the prompt and all that was emitted; the newest is not yet in the cache.

    max_length: the length of `tokens` at which the request ends
    """

    request: Request
    eos_token_ids: frozenset[int]
    max_length: int
    tokens: list[int] = field(default_factory=list)

    @property
    def room(self) -> int:
        """Tokens that may still be emitted."""
        return self.max_length - len(self.tokens)

    def extend(self, tokens: Sequence[int]) -> tuple[int, FinishReason | None]:
        """Emit tokens up to the one that ends the request: how many were emitted, and the reason if it ended."""
        for count, token in enumerate(tokens, start=1):
            self.tokens.append(token)
            if self._stops_at(token):
                return count, "stop"
            if self.room == 0:
                return count, "length"
        return len(tokens), None

    def _stops_at(self, token: int) -> bool:
        params, stops = self.request.params, self.request.stops
        # `stops` sees every token, since it builds up the text.
        asked = stops is not None and stops(token)
        return asked or token in params.stop_token_ids or (token in self.eos_token_ids and not params.ignore_eos)
