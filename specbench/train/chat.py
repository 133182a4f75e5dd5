"""A model's chat format as token ids: prompts rendered as a server would, and what stands around a user's turn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.workloads.prompt import Prompt

_MARK = "\u2603turn\u2603"


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """tokenizer: transformers' · before, after: the text around the only user turn of a chat that awaits its answer"""

    tokenizer: Any
    before: str
    after: str

    @classmethod
    def from_directory(cls, target: Path) -> ChatFormat:
        """Raises SpecbenchError where the tokenizer has no chat template."""
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(target))
        if tokenizer.chat_template is None:
            raise SpecbenchError(f"{target} has no chat template. Take the instruct version of the model.")
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": _MARK}], add_generation_prompt=True, tokenize=False
        )
        before, _, after = text.partition(_MARK)
        return cls(tokenizer, before, after)

    def encode(self, prompt: Prompt) -> list[int]:
        """The token ids that a server would make of this prompt."""
        if prompt.messages is None:
            return self._ids(prompt.prompt or "")
        messages = [dict(message) for message in prompt.messages]
        return self._ids(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))

    def open_turn(self) -> list[int]:
        """The token ids after which the model would go on with a user's words."""
        return self._ids(self.before)

    def decode(self, ids: list[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids
