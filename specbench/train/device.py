"""What trains: a GPU where there is one."""

from __future__ import annotations

import torch


def train_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
