"""Logs of prompts and responses, JSON Lines in the shapes that servers, proxies and data sets have (SHAPES)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from specbench.analysis.degenerate import was_cut_in_a_loop
from specbench.errors import SpecbenchError
from specbench.profile.encoders import Encoder
from specbench.profile.offsets import Transcript

if TYPE_CHECKING:
    from specbench.store.run import RunStore

SHAPES = (
    '{"messages": [… , {"role": "assistant", "content": …}]}',
    '{"prompt": …, "response": …}',
    '{"prompt": …, "completion": …}',
    '{"request": {…}, "response": {"choices": […]}}',
    "the output of OpenAI's batch API",
    '{"prompt_token_ids": […], "token_ids": […]}',
)

_RESPONSES = ("response", "completion", "output")
_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant"}
"""ShareGPT's names for the roles."""


class _Bad(Exception):
    pass


@dataclass(slots=True)
class LogFile:
    """The transcripts of one file, read line by line.

    prompts: requests by `custom_id`, for batch outputs, which do not repeat what was asked
    skipped: one sentence per line that was left out · promptless: responses that stand without what was asked
    in_ids: responses that are token ids already
    """

    path: Path
    encoder: Encoder
    skip_bad_lines: bool = False
    prompts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    promptless: int = 0
    in_ids: int = 0

    def __iter__(self) -> Iterator[Transcript]:
        """Raises SpecbenchError, naming file and line, at the first line of no known shape."""
        for number, line in _lines(self.path):
            try:
                transcript = self._transcript(_object(line), f"{self.path.stem}-{number}")
            except _Bad as bad:
                if not self.skip_bad_lines:
                    raise SpecbenchError(f"{self.path}:{number}: {bad} Or pass --skip-bad-lines.") from None
                self.skipped.append(f"{self.path}:{number}: {bad}")
            else:
                self.promptless += not transcript.prompt
                yield transcript

    def _transcript(self, entry: Mapping[str, Any], default_id: str) -> Transcript:
        id = entry.get("id") or entry.get("custom_id")
        category = entry.get("category")
        prompt, response, cut = self._parts(entry)
        if not response:
            raise _Bad("the response is empty.")
        return Transcript(
            id=str(id or default_id),
            prompt=prompt,
            response=response,
            max_tokens=len(response) if cut else None,
            category=category if isinstance(category, str) else None,
        )

    def _parts(self, entry: Mapping[str, Any]) -> tuple[list[int], list[int], bool]:
        """Prompt, response, and whether a token limit cut it."""
        reason = _string(entry.get("finish_reason"))
        ids = next(
            (entry[name] for name in ("token_ids", "response_token_ids", "output_token_ids") if name in entry), None
        )
        if ids is not None:
            self.in_ids += 1
            return _ids(entry.get("prompt_token_ids") or []), _ids(ids), reason == "length"
        response = entry.get("response")
        if isinstance(response, Mapping):
            asked = entry.get("request") or self.prompts.get(str(entry.get("custom_id"))) or entry
            body = asked.get("body") or asked if isinstance(asked, Mapping) else asked
            if not isinstance(body, Mapping):
                raise _Bad('"request", and a "body" in it, must be objects.')
            text, reason = _answer(response)
            return self._prompt(body), *self._response(text, reason)
        turns = entry.get("messages") or entry.get("conversations")
        if turns is not None and not any(name in entry for name in _RESPONSES):
            messages = _messages(turns)
            if len(messages) < 2 or messages[-1]["role"] != "assistant":
                raise _Bad("the last message must be the assistant's answer.")
            return self._prompt({"messages": messages[:-1]}), *self._response(messages[-1]["content"], reason)
        answer = next((entry[name] for name in _RESPONSES if isinstance(entry.get(name), str)), None)
        if answer is None:
            raise _Bad(f"no prompt and response in a known shape. Known are: {'; '.join(SHAPES)}.")
        return self._prompt(entry), *self._response(answer, reason)

    def _prompt(self, asked: Mapping[str, Any]) -> list[int]:
        messages, prompt = asked.get("messages") or asked.get("conversations"), asked.get("prompt")
        if messages is None and isinstance(prompt, list) and prompt and isinstance(prompt[0], Mapping):
            messages = prompt
        if messages is not None:
            return self.encoder.chat(_messages(messages))
        if isinstance(prompt, list):
            return _ids(prompt)
        if prompt is not None and not isinstance(prompt, str):
            raise _Bad('"prompt" must be a string or a list.')
        return self.encoder.text(prompt) if prompt else []

    def _response(self, text: str, reason: str | None) -> tuple[list[int], bool]:
        """With the token that ended it, which an engine emits in a step like any other, and whether it was cut.

        A log that does not say is believed to be of whole answers; but no model ends a loop.
        """
        if not text:
            raise _Bad("the response is empty.")
        tokens = self.encoder.text(text)
        cut = reason == "length" or (reason is None and was_cut_in_a_loop(tokens))
        return (tokens, True) if cut else ([*tokens, *self.encoder.end], False)


def batch_prompts(path: Path) -> dict[str, Mapping[str, Any]]:
    """The requests of an input file of OpenAI's batch API by their `custom_id`."""
    found = {}
    for number, line in _lines(path):
        try:
            entry = _object(line)
            found[str(entry["custom_id"])] = entry["body"]
        except (_Bad, KeyError) as error:
            raise SpecbenchError(
                f"{path}:{number}: not a request of OpenAI's batch API ({error}). Each line needs custom_id and body."
            ) from None
    return found


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line
    except FileNotFoundError:
        raise SpecbenchError(f"no log file {path}. Give JSON Lines: one prompt and response per line.") from None
    except IsADirectoryError:
        raise SpecbenchError(
            f"{path} is a directory. Give a file of JSON Lines, or a run of specbench sweep."
        ) from None


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(line.decode("utf-8-sig"))
        if b"\\ud" in line.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _Bad("it holds half of a surrogate pair (\\ud800 to \\udfff), which is no character.") from None
    except (ValueError, RecursionError) as error:
        raise _Bad(f"not valid JSON ({error}).") from None
    if not isinstance(value, dict):
        raise _Bad("a line must be a JSON object.")
    return value


def _answer(response: Mapping[str, Any]) -> tuple[str, str | None]:
    """Text and finish reason of an OpenAI response object, or of the batch API's wrapper around one."""
    body = response.get("body") or response
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise _Bad("the response has no choices.")
    choice = choices[0]
    message = choice.get("message")
    text = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    if not isinstance(text, str):
        raise _Bad("the first choice has no text.")
    return text, _string(choice.get("finish_reason"))


def _messages(value: object) -> list[dict[str, str]]:
    if not isinstance(value, list) or not value:
        raise _Bad('"messages" must be a list of {role, content}.')
    return [_message(message) for message in value]


def _message(value: object) -> dict[str, str]:
    if isinstance(value, Mapping):
        role = value.get("role") or value.get("from")
        content = value.get("content", value.get("value"))
        if isinstance(content, list):  # parts, of which only text can be profiled
            content = "".join(
                part["text"] for part in content if isinstance(part, Mapping) and _is_text(part.get("text"))
            )
        if isinstance(role, str) and (isinstance(content, str) or content is None):
            return {"role": _ROLES.get(role, role), "content": content or ""}
    raise _Bad('"messages" must be a list of {role, content}.')


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def _ids(value: object) -> list[int]:
    if not _is_ids(value):
        raise _Bad("token ids must be a list of whole numbers.")
    return list(value)


def _is_ids(value: object) -> TypeGuard[Sequence[int]]:
    return isinstance(value, list) and all(isinstance(token, int) and not isinstance(token, bool) for token in value)


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def run_transcripts(run: RunStore) -> Iterable[Transcript]:
    """What the baseline answered in a run of `specbench sweep`: every prompt of each workload once."""
    seen = set()
    for m in run.measurements():
        if not m.cell.speculation.is_baseline:
            continue
        for trace in m.traces:
            if trace.error or not trace.prompt_token_ids or not trace.token_ids:
                continue
            if (prompt := (m.cell.workload, trace.prompt_id)) not in seen:
                seen.add(prompt)
                limit = len(trace.token_ids) if trace.finish_reason == "length" else None
                yield Transcript(trace.prompt_id, trace.prompt_token_ids, trace.token_ids, limit, trace.category)
