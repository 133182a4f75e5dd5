"""Weights by name, out of the safetensors files of a Hugging Face directory."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor


class Weights(Protocol):
    """Tensors by their names in Hugging Face's checkpoints."""

    def __contains__(self, name: str) -> bool: ...

    def tensor(self, name: str) -> Tensor: ...


class Checkpoint:
    """The tensors of one model, in one file or in shards, read one at a time so that no model needs double memory.

    Raises ValueError where the directory has no safetensors, a file is broken, or a tensor is missing.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        index, single = self.directory / "model.safetensors.index.json", self.directory / "model.safetensors"
        if index.exists():
            files = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        elif single.exists():
            files = [single.name]
        else:
            raise ValueError(
                f"{self.directory} has no model.safetensors (and no index of shards). "
                "Save the model with transformers' save_pretrained, which writes safetensors."
            )
        self._files: dict[str, Any] = {}
        for file in files:
            opened = self._open(self.directory / file)
            self._files.update(dict.fromkeys(opened.keys(), opened))

    @staticmethod
    def _open(path: Path) -> Any:
        try:
            return safe_open(path, framework="pt")
        except FileNotFoundError:
            raise ValueError(f"{path} is in the index of shards but isn't there. Fetch the model again.") from None
        except SafetensorError as error:
            raise ValueError(f"{path} is not a whole safetensors file ({error}). Fetch the model again.") from None

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def tensor(self, name: str) -> Tensor:
        """The tensor of this name, on the CPU, in the dtype that it was stored in."""
        if name not in self._files:
            raise ValueError(f"{self.directory} lacks the tensor {name}. Is its config.json that of another model?")
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor

    @property
    def dtype(self) -> torch.dtype:
        """What the embeddings are stored in, which stands for the whole model."""
        name = "model.embed_tokens.weight"
        if name not in self._files:
            raise ValueError(f"{self.directory} lacks the tensor {name}. Is it a Llama-family model?")
        first_row: Tensor = self._files[name].get_slice(name)[:1]
        return first_row.dtype


class StateDict:
    """The tensors of one file of PyTorch's own format, which heads of 2023 and 2024 were published in.

    Nothing but tensors is unpickled, since a pickle can hold any code. Raises ValueError for a file that holds more, or
    is broken, and where a tensor is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
            reason = (str(error).splitlines() or ["it ends early"])[0]
            raise ValueError(f"{path} can't be read as a file of tensors ({reason}). Fetch it again.") from None

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def tensor(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise ValueError(f"{self._path} lacks the tensor {name}. Is it of another method?")
        return self._tensors[name]


def head_weights(directory: str | Path, pickled: str) -> Weights:
    """Of a head that is published as safetensors, or as the file `pickled` of PyTorch's own format."""
    path = Path(directory) / pickled
    safe = any((Path(directory) / name).exists() for name in ("model.safetensors", "model.safetensors.index.json"))
    return StateDict(path) if path.exists() and not safe else Checkpoint(directory)
