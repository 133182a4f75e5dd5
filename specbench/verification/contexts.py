"""Where to draw: contexts at which a bias would show, since the next token is open and drafts do get rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from specbench.equivalence.sampling.observations import Distribution, Draw, Tokens
from specbench.equivalence.sampling.power import LEAST_ENTROPY, MOST_ACCEPTANCE
from specbench.replay.records import RequestTrace
from specbench.verification.server import Server

LOOKUP = ("ngram", "suffix")
LOOK_AHEAD = 24
TAIL = 8
REPEATS = 4
FIRST_TOKENS = 4
LEAST_DRAFTED = 0.3
"""Share of pilot draws that a draft must come to: what was never drafted says nothing of verification."""


@dataclass(frozen=True, slots=True)
class Context:
    """A prompt of fixed tokens. entropy: in nats, of the second token drawn there; None where it is not known"""

    prompt: Tokens
    entropy: float | None = None


async def candidates(server: Server, traces: Sequence[RequestTrace], method: str, seed: int) -> list[Context]:
    """For each prompt a place in one of its own continuations where the second token from there on is open.

    traces: the prompts as the server tokenizes them · method: lookup drafts come only where text repeats, so for these
    the text before the place is repeated, with other continuations
    The first token is the prefill's, and the fewer it may be, the more draws go on from the same.
    """
    prompts = [trace.prompt_token_ids for trace in traces if trace.prompt_token_ids]
    limit = asyncio.Semaphore(server.config.batch_size[-1])

    async def find(number: int, prompt: Tokens) -> Context | None:
        async with limit:
            given = await server.sampled(prompt, LOOK_AHEAD, seed + number)
            entropies = [Distribution.from_logprobs(top).entropy for top in given.top]
            open_places = [at for at in range(1, len(entropies)) if entropies[at] > LEAST_ENTROPY]
            if not open_places:
                return None
            at = max(open_places, key=lambda at: entropies[at] - entropies[at - 1])
            place = prompt + given.token_ids[: at - 1]
            if method in LOOKUP:
                place = await _repeated(server, place, seed + number)
            return Context(place)

    found = [c for c in await asyncio.gather(*(find(i, p) for i, p in enumerate(prompts))) if c is not None]
    entropies = await asyncio.gather(*(_second_token_entropy(server, context.prompt, limit) for context in found))
    measured = [Context(c.prompt, entropy) for c, entropy in zip(found, entropies, strict=True)]
    return [context for context in measured if (context.entropy or 0.0) > LEAST_ENTROPY]


async def _repeated(server: Server, place: Tokens, seed: int) -> Tokens:
    """The end of the text with several of its continuations, and then the text: whatever comes now, something like it
    came before."""
    tail = place[-TAIL:]
    before: Tokens = ()
    for repeat in range(REPEATS):
        given = await server.sampled(place, TAIL, seed + 1_000 * (repeat + 1))
        before += tail + given.token_ids
    return before + place


async def _second_token_entropy(server: Server, prompt: Tokens, limit: asyncio.Semaphore) -> float:
    async with limit:
        (first,) = await server.distributions([prompt])
        likely = first.tokens[:FIRST_TOKENS]
        seconds = await server.distributions([(*prompt, token) for token in likely])
    weights = first.probs[: len(likely)]
    return sum(w * d.entropy for w, d in zip(weights, seconds, strict=True)) / sum(weights)


def has_power(pilot: Sequence[Draw]) -> bool:
    """Whether drafts came and some were rejected; True where the engine does not say."""
    told = [draw.steps for draw in pilot if draw.steps is not None]
    if not told:
        return True
    drafted = sum(d for steps in told for d, _ in steps)
    accepted = sum(a for steps in told for _, a in steps)
    share = sum(any(d for d, _ in steps) for steps in told) / len(told)
    return share >= LEAST_DRAFTED and accepted < MOST_ACCEPTANCE * drafted
