"""Which requests a measurement sends: the same ones, in the same order, in every arm and at every batch size."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specbench.errors import SpecbenchError
from specbench.replay.request import RequestSpec
from specbench.sweep.config import SweepConfig
from specbench.workloads.prompt import Prompt, Workload

REFILLS_PER_SLOT = 4
"""At least this many requests per slot: the first cohort and the drain are cut from the steady window."""

WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a user says at one time. number: 0 for the first;  follows: place of the turn before among all turns"""

    prompt: Prompt
    number: int
    follows: int | None


def request_order(workload: Workload, config: SweepConfig, batch_size: int) -> list[RequestSpec]:
    """The requests of one measurement. Request i is the same prompt with the same seed whatever the batch size.

    Prompts are shuffled once by `config.seed`, cut to `config.prompts`, and cycled where more requests are asked for,
    or needed by a large batch, than there are prompts. An open loop has no slots to refill. Every turn of a
    conversation is a request of its own. Raises SpecbenchError where there are fewer conversations than slots, and for
    a prompt that would be sent twice to a server that remembers.
    """
    prompts = _chosen(workload, config)
    turns = list(_turns(prompts, gap=2 * max(config.batch_size)))
    needed = 0 if config.is_open_loop else REFILLS_PER_SLOT * batch_size
    if len(prompts) < min(batch_size, needed) and len(turns) > len(prompts):
        raise SpecbenchError(
            f"{workload.path}: {len(prompts)} conversations cannot keep {batch_size} requests in flight, as each waits "
            "for its answers. Give more of them, or a smaller --batch-size."
        )
    count = max(config.requests or len(turns), needed)
    if config.remembers and count > len(turns):
        raise SpecbenchError(
            f"{workload.path}: a server that remembers gets each prompt once, and {count} requests are needed of "
            f"{len(turns)}. Give more prompts (--prompts), or a smaller --batch-size or --requests."
        )
    return [_turn(i, turns, config) for i in range(count)]


def _turns(prompts: Sequence[Prompt], gap: int) -> Iterator[_Turn]:
    """Every turn of the prompts once, each at least `gap` places behind the one before it while there are others.

    So answers are there when they are replied to, and as many requests are in flight as ever: users think, too.
    """
    waiting: deque[tuple[int, _Turn]] = deque()
    fresh = iter(prompts)
    place = 0
    while True:
        if waiting and waiting[0][0] + gap <= place:
            turn = waiting.popleft()[1]
        elif (prompt := next(fresh, None)) is not None:
            turn = _Turn(prompt, 0, None)
        elif waiting:
            turn = waiting.popleft()[1]
        else:
            return
        yield turn
        if turn.number < len(turn.prompt.follow_ups):
            waiting.append((place, _Turn(turn.prompt, turn.number + 1, place)))
        place += 1


def _turn(index: int, turns: Sequence[_Turn], config: SweepConfig) -> RequestSpec:
    """Request `index`: turns begin anew when all have been sent."""
    begin, place = index - index % len(turns), index % len(turns)
    turn = turns[place]
    spec = _spec(index, turn.prompt, config)
    if turn.follows is None:
        return spec
    said = {"role": "user", "content": turn.prompt.follow_ups[turn.number - 1]}
    return replace(
        spec, prompt_id=f"{spec.prompt_id}#{turn.number + 1}", messages=(said,), follows=begin + turn.follows
    )


def warm_up_requests(workload: Workload, config: SweepConfig, batch_size: int, cohort: int = 0) -> list[RequestSpec]:
    """A cohort of short requests, so that every shape of the cell has run before the clock starts.

    The first cohorts have the longest and the shortest prompt of the cell among them; where a server remembers, of the
    prompts that are not measured.
    cohort: 0 for the first; further ones are other prompts as long as there are any
    """
    prompts = _warm_up_order((_others if config.remembers else _chosen)(workload, config))
    return [
        _spec(i, prompts[i % len(prompts)], config, max_tokens=min(WARM_UP_TOKENS, config.max_tokens))
        for i in range(cohort * batch_size, (cohort + 1) * batch_size)
    ]


def memory_requests(workload: Workload, config: SweepConfig, count: int) -> list[RequestSpec]:
    """Requests whose responses a server has before a measurement: of prompts that are not measured, each sent once.

    Raises SpecbenchError where there are fewer of them.
    """
    prompts = _others(workload, config)
    if len(prompts) < count:
        raise SpecbenchError(
            f"{workload.path}: {count} responses are to be remembered of prompts that are not measured, and of "
            f"{len(workload.prompts)} prompts {len(prompts)} are not. Give a smaller --prompts or "
            "--suffix-cached-requests, or more prompts."
        )
    return [_spec(i, prompt, config) for i, prompt in enumerate(prompts[:count])]


def _warm_up_order(prompts: list[Prompt]) -> list[Prompt]:
    """Longest and shortest first, by letters; the rest from the end of the cell's own order."""
    by_length = sorted(prompts, key=_letters)
    ends = list(dict.fromkeys((by_length[-1].id, by_length[0].id)))
    known = {prompt.id: prompt for prompt in prompts}
    return [known[id] for id in ends] + [prompt for prompt in reversed(prompts) if prompt.id not in ends]


def _letters(prompt: Prompt) -> int:
    return len(prompt.prompt or "") + sum(len(message.get("content") or "") for message in prompt.messages or ())


def _chosen(workload: Workload, config: SweepConfig) -> list[Prompt]:
    return _shuffled(workload, config)[: config.prompts]


def _others(workload: Workload, config: SweepConfig) -> list[Prompt]:
    return _shuffled(workload, config)[config.prompts or len(workload.prompts) :]


def _shuffled(workload: Workload, config: SweepConfig) -> list[Prompt]:
    prompts = list(workload.prompts)
    random.Random(config.seed).shuffle(prompts)
    return prompts


def _spec(index: int, prompt: Prompt, config: SweepConfig, max_tokens: int | None = None) -> RequestSpec:
    return RequestSpec(
        index=index,
        prompt_id=prompt.id,
        category=prompt.category,
        messages=prompt.messages,
        prompt=prompt.prompt,
        max_tokens=max_tokens or prompt.max_tokens or config.max_tokens,
        temperature=config.temperature,
        top_p=config.top_p,
        top_k=config.top_k,
        seed=config.seed + index,
        extra=_extra(prompt, config),
    )


def _extra(prompt: Prompt, config: SweepConfig) -> dict[str, Any]:
    """The prompt's own fields; template options of the run stand behind the prompt's."""
    template = {**config.chat_template_kwargs, **prompt.extra.get("chat_template_kwargs", {})}
    return {**prompt.extra, **({"chat_template_kwargs": template} if template else {})}
