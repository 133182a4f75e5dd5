"""A CUDA graph's stand-in on a CPU: it records the operations of some work, and does them again in the same memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten

HOST = {
    aten._local_scalar_dense,
    aten.lift_fresh,
    aten.nonzero,
    aten.masked_select,
    aten.repeat_interleave.Tensor,
    aten._unique2,
    aten.equal,
    aten.is_nonzero,
}
"""Operations that make the host wait for a device, bring its numbers there, or give tensors of any length."""


class Tape(TorchDispatchMode):
    """Whatever the host computes while it records (lengths, branches, the tensors that it goes by) stays as it was."""

    def __init__(self) -> None:
        super().__init__()
        self._done: list[tuple[Any, tuple[Any, ...], Mapping[str, Any], Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        assert not {func, func.overloadpacket} & HOST, func
        result = func(*args, **(kwargs or {}))
        self._done.append((func, args, kwargs or {}, result))
        return result

    def forget(self) -> None:
        """What a graph gives is not there before it is first replayed."""
        for _, args, kwargs, result in self._done:
            given = {_memory(t) for t in _tensors((args, kwargs))}
            for tensor in _tensors(result):
                if _memory(tensor) not in given:
                    tensor.fill_({torch.int64: 2**40, torch.bool: True}.get(tensor.dtype, torch.nan))

    def replay(self) -> None:
        for func, args, kwargs, result in self._done:
            for old, new in zip(_tensors(result), _tensors(func(*args, **kwargs)), strict=True):
                if _memory(old) != _memory(new):
                    old.copy_(new)


def capture(work: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """As `graphs.capture`."""
    work()
    tape = Tape()
    with tape:
        result = work()
    tape.forget()
    return tape.replay, result


def _tensors(values: Any) -> list[torch.Tensor]:
    """But for packed weights, which have no memory that one could look at, and which nothing writes to."""
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor) and not value.is_mkldnn]


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
