"""From text to the tokens that are profiled: with a model's tokenizer, or without any."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from specbench.errors import SpecbenchError

_WORD = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")


class Encoder(Protocol):
    """name: for the report · unit: what its tokens are, in the plural · end: what ends an answer, as token ids"""

    name: str
    unit: str
    end: tuple[int, ...]

    def text(self, text: str) -> list[int]:
        """Tokens of a text as it stands."""

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Tokens of a chat that awaits the model's answer."""


class Words:
    """Words and punctuation marks, each with the white space before it: about what a tokenizer makes of English.

    Acceptance by words is not that by tokens: it says whether text repeats itself, and how methods compare on it.
    """

    name = unit = "words"
    end: tuple[int, ...] = (0,)

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def text(self, text: str) -> list[int]:
        numbers = self._numbers
        return [numbers.setdefault(word, len(numbers) + 1) for word in _WORD.findall(text)]

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self.text(_as_text(messages))


class Bytes:
    """The bytes of the text in UTF-8."""

    name = unit = "bytes"
    end: tuple[int, ...] = (256,)

    def text(self, text: str) -> list[int]:
        return list(text.encode())

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self.text(_as_text(messages))


class ModelTokens:
    """A Hugging Face tokenizer: what the engine itself sees, chat template included.

    source: a model's directory, or a hub id, of which only the tokenizer is fetched
    """

    unit = "tokens"

    def __init__(self, source: str | Path, name: str) -> None:
        """Raises SpecbenchError where transformers is missing, or no tokenizer loads."""
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise SpecbenchError(
                "a model's tokenizer needs transformers: pip install '.[reference]', or take --tokenizer words."
            ) from error
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(source))
        except (OSError, ValueError) as error:
            raise SpecbenchError(
                f"no tokenizer loads from {name} ({str(error).splitlines()[0]}). Give a model's directory or hub id, "
                "words, or bytes."
            ) from error
        self.name = name
        eos = self._tokenizer.eos_token_id
        self.end: tuple[int, ...] = () if eos is None else (eos,)

    def text(self, text: str) -> list[int]:
        # Logs may be longer than the model's limit, which transformers would remark on.
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        if self._tokenizer.chat_template is None:
            return self.text(_as_text(messages))
        chat = [dict(message) for message in messages]
        try:
            text: str = self._tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        except Exception as error:  # a template is a program of the model's: it raises whatever it likes
            raise SpecbenchError(f"the chat template of {self.name} refuses these messages ({error}).") from error
        return self.text(text)


def load_encoder(name: str, progress: Callable[[str], None]) -> Encoder:
    """name: words, bytes, demo, a model's directory or a hub id · progress: gets a sentence before a long step"""
    if name == "words":
        return Words()
    if name == "bytes":
        return Bytes()
    if name == "demo":
        from specbench.demo import demo_target

        return ModelTokens(demo_target(progress), name)
    return ModelTokens(name, name)


def _as_text(messages: Sequence[Mapping[str, str]]) -> str:
    return "".join(f"{message['role']}: {message['content']}\n" for message in messages)
