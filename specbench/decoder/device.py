"""Which device is meant, and what PyTorch is told of a GPU that it is to work on."""

from __future__ import annotations

import torch


def resolve_device(name: str) -> torch.device:
    """A GPU has its number, which what `set_device` is given needs. Raises ValueError for what is no device, and for a
    GPU that is not here.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"unknown device {name!r}. Choose from: cpu, cuda, or cuda:1 and so on.")
    if device.type == "cpu":
        return device
    if (number := device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"PyTorch {torch.__version__} sees no device {name} here. Choose another, or cpu.")
    return torch.device("cuda", number)


def use_gpu(device: torch.device) -> None:
    """Once, before anything is computed there. device: a GPU with its number"""
    torch.cuda.set_device(device)  # of this thread: streams, graphs and Triton's launches go by it
    # On Hopper, attention in 16 bits would go to cuDNN, which plans anew for every shape, in tenths of a second; here
    # texts that grow have a new one every 16 tokens.
    torch.backends.cuda.enable_cudnn_sdp(False)
