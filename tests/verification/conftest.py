"""A tiny target with an open next token, and a draft that often disagrees with it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "decoder"))


@pytest.fixture(scope="session")
def open_target(tiny_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny target with a sharper head: some 2 nats at temperature 0.8, where it is all but uniform otherwise."""
    import torch
    from transformers import LlamaForCausalLM

    directory = tmp_path_factory.mktemp("open") / "target"
    shutil.copytree(tiny_target, directory)
    model = LlamaForCausalLM.from_pretrained(tiny_target)
    with torch.no_grad():
        model.lm_head.weight.mul_(4)
    model.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def noisy_draft(open_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target with noise on its weights."""
    import torch
    from transformers import LlamaForCausalLM

    directory = tmp_path_factory.mktemp("noisy") / "draft"
    shutil.copytree(open_target, directory)
    model = LlamaForCausalLM.from_pretrained(open_target)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.05 * weights.std() * torch.randn(weights.shape, generator=generator))
    model.save_pretrained(directory)
    return directory
