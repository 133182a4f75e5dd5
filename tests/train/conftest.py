"""Prompts to train on; what stands beside this file can be imported."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def prompt_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prompts") / "tickets.jsonl"
    lines = [{"id": f"t{i}", "messages": [{"role": "user", "content": f"ticket {i * 7919 % 997}"}]} for i in range(48)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
