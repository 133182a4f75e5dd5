"""One request on its way through the simulated engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from specbench.simulated.drafts import Draft, Drafts
from specbench.simulated.tokens import OutputTokens


@dataclass(frozen=True, slots=True)
class Emission:
    """What a pass added to a request. draft: None for the token that comes out of the prefill"""

    tokens: tuple[int, ...]
    draft: Draft | None
    finish_reason: str | None


@dataclass(eq=False, slots=True)
class Running:
    """One request on its way through the engine. Iterate for what each pass adds."""

    number: int
    rank: int
    prompt: tuple[int, ...]
    text: str
    max_tokens: int
    ignore_eos: bool
    output: OutputTokens
    drafts: Drafts
    arrived: float
    emitted: int = 0
    steps: list[tuple[int, int]] = field(default_factory=list)
    finish_reason: str | None = None
    _passes: asyncio.Queue[Emission | Exception] = field(default_factory=asyncio.Queue)

    @property
    def context(self) -> int:
        return len(self.prompt) + self.emitted

    def emit(self, draft: Draft | None) -> Emission:
        """Take what a pass gives, as far as the output goes."""
        wanted = 1 if draft is None else draft.accepted + 1
        natural = None if self.ignore_eos else self.output.length
        end = self.max_tokens if natural is None else min(natural, self.max_tokens)
        last = min(self.emitted + wanted, end)
        tokens = tuple(self.output.token(i, ignore_eos=self.ignore_eos) for i in range(self.emitted, last))
        self.emitted = last
        if last == end:
            self.finish_reason = "stop" if natural == end else "length"
        return Emission(tokens, draft, self.finish_reason)

    def token_ids(self) -> list[int]:
        """All that it has given so far."""
        return [self.output.token(i, ignore_eos=self.ignore_eos) for i in range(self.emitted)]

    def hand_over(self, result: Emission | Exception) -> None:
        self._passes.put_nowait(result)

    async def __aiter__(self) -> AsyncIterator[Emission]:
        while True:
            result = await self._passes.get()
            if isinstance(result, Exception):
                raise result
            yield result
            if result.finish_reason is not None:
                return
