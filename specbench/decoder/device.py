"""What PyTorch is told of the GPU that it is to work on."""

from __future__ import annotations

import torch


def use_gpu(device: torch.device) -> None:
    """Once, before anything is computed there. device: a GPU with its number"""
    torch.cuda.set_device(device)  # of this thread: streams, graphs and Triton's launches go by it
    # On Hopper, attention in 16 bits would go to cuDNN, which plans anew for every shape, in tenths of a second; here
    # texts that grow have a new one every 16 tokens.
    torch.backends.cuda.enable_cudnn_sdp(False)
