"""AIPerf: `text` or `texts`, `turns` of them with a `session_id`, or the `text_input` or `messages` of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import BadEntry
from specbench.workloads.readers.chat import first_words, question, user
from specbench.workloads.readers.entries import filled, identifier, kind
from specbench.workloads.readers.jsonl import PASSED_ON, limit, passed_on


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`. When a turn is sent is the run's to say; the first turn's limit and fields are those of all.

    An entry of a trace is a prompt of its own, whatever its session: it has the conversation before it in it.
    """
    if "messages" in entry:
        messages = question(entry["messages"], "messages")
        return Prompt(default_id, messages=messages, max_tokens=limit(entry, "output_length"), extra=_extra(entry))
    if "turns" not in entry:
        return Prompt(
            identifier(entry, "session_id", default_id) if "text_input" not in entry else default_id,
            messages=(user(_said(entry, "the entry")),),
            max_tokens=limit(entry, "output_length"),
            extra=_extra(entry),
        )
    turns = entry["turns"]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise BadEntry('"turns" must be a list of objects', "Correct it or remove the line")
    told = [
        {"role": "system", "content": _said(turn, "turns[0]")} for turn in turns[:1] if turn.get("role") == "system"
    ]
    asked = turns[len(told) :]
    if not asked or any(turn.get("role") not in (None, "user") for turn in asked):
        raise BadEntry('"turns" must be the user\'s, after one of the system at most', "Correct it or remove the line")
    first, *rest = (_said(turn, f"turns[{i}]") for i, turn in enumerate(asked, len(told)))
    return Prompt(
        identifier(entry, "session_id", default_id),
        messages=(*told, user(first)),
        max_tokens=limit(asked[0], "output_length"),
        extra=_extra(asked[0]),
        follow_ups=tuple(rest),
    )


def entry_of(prompt: Prompt) -> Mapping[str, Any]:
    """See `WritableModule`. As turns, which have an id even where there is one."""
    system, said = first_words(prompt)
    length = {} if prompt.max_tokens is None else {"output_length": prompt.max_tokens}
    extra = {"extra": dict(prompt.extra)} if prompt.extra else {}
    turns = [{"text": text, **length, **extra} for text in (said, *prompt.follow_ups)]
    told = [] if system is None else [{"role": "system", "text": system}]
    return {"session_id": prompt.id, "turns": [*told, *turns]}


def _said(turn: Mapping[str, Any], place: str) -> str:
    """Texts of one request are its parts, joined as servers do."""
    texts = turn.get("texts")
    if texts is None:
        return filled(turn.get("text_input") if turn.get("text") is None else turn["text"], f'"text" of {place}')
    if not isinstance(texts, list):
        raise BadEntry(f'"texts" of {place} must be a list; got {kind(texts)}', "Correct it or remove the line")
    return "\n".join(filled(text, f'"texts" of {place}') for text in texts)


def _extra(turn: Mapping[str, Any]) -> dict[str, Any]:
    extra = turn.get("extra") or {}
    if not isinstance(extra, dict):
        raise BadEntry(f'"extra" must be an object; got {kind(extra)}', "Correct it or leave it out")
    given = {"tools": turn.get("tools"), **extra}
    return {name: passed_on(given[name], name) for name in PASSED_ON if given.get(name) is not None}
