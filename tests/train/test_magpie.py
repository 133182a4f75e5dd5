"""The target writes its own prompts."""

from __future__ import annotations

from pathlib import Path

import torch

from specbench.decoder.drafters.none import NoDrafter
from specbench.decoder.engine import Engine
from specbench.decoder.models.llama import Llama
from specbench.train.chat import ChatFormat
from specbench.train.magpie import SHORTEST, sample_prompts
from specbench.workloads.prompt import Prompt


def test_prompts_are_turns_that_the_model_ended_and_none_comes_twice(tiny_target: Path) -> None:
    model = Llama.from_directory(tiny_target, torch.float32, torch.device("cpu"))
    # Half of all tokens end a turn here, so that a random model comes to an end.
    engine = Engine(model, NoDrafter(), 0, 16, 256, eos_token_ids=range(0, 258, 12))
    prompts = list(sample_prompts(engine, ChatFormat.from_directory(tiny_target), count=40))
    texts = [prompt.messages[0]["content"] for prompt in prompts if prompt.messages]
    assert 0 < len(texts) <= 40
    assert len(set(texts)) == len(texts)
    assert all(len(text) >= SHORTEST for text in texts)
    assert {prompt.category for prompt in prompts} == {"magpie"}


def test_the_turn_is_opened_as_the_chat_template_opens_it(tiny_target: Path) -> None:
    chat = ChatFormat.from_directory(tiny_target)
    question = Prompt("q", messages=({"role": "user", "content": "why?"},))
    assert chat.encode(question) == [*chat.open_turn(), *chat.tokenizer("why?" + chat.after)["input_ids"]]
