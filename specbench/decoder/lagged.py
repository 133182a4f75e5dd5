"""An engine whose steps run on the device as a whole, and are read one step behind.

The next step is launched before this one is read, so that the device does not wait for the host. What only the host can
see lags by a step: a request that has ended or was aborted takes part in one more, and what that gives it is dropped.
Nothing is under way when a request enters a row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.counters import Phase
from specbench.decoder.device_step import DeviceStep, Parts, Rows
from specbench.decoder.drafters.base import Drafter
from specbench.decoder.drafters.on_device import on_device
from specbench.decoder.engine import Engine
from specbench.decoder.graphs import capture
from specbench.decoder.policies.base import GammaPolicy
from specbench.decoder.request import Request, SequenceState, StepOutput
from specbench.decoder.verifier import Verification

LAGGED = ("off", "auto", "on")
"""Steps that the host leads; lagged ones on a GPU, wherever nothing stands against them; lagged ones anywhere."""

_SPAN = 256
"""Slots that attention in PyTorch reads at least: for texts no longer than this one step does."""


def obstacle(drafter: Drafter, verification: Verification, policy: GammaPolicy | None) -> str | None:
    """Why a step cannot run on the device as a whole; None where it can."""
    if policy is not None:
        return f"{policy} sets gamma step by step"
    if verification == "block":
        return "block verification draws by the length of the text"
    if on_device(drafter, rows=0, gamma=0) is None:
        return f"method {drafter.name} drafts on the host here, as trees and draft models of another vocabulary need"
    return None


@dataclass(frozen=True, slots=True)
class _Flight:
    """A step that was launched and not yet read.

    sequences: of whose rows it is · results: [B, 3 + γ] as in `DeviceStep`, on the host once the step is over ·
    logits: [B, γ+1, V], still this step's where log-probabilities were asked for · phases: its parts ·
    marks: events, one before each part and one after the last
    """

    sequences: tuple[SequenceState | None, ...]
    results: Tensor
    logits: Tensor
    phases: tuple[Phase, ...]
    marks: list[Any]


class LaggedEngine(Engine):
    """As `Engine`; what a step gave comes with the next call. Raises ValueError where there is an `obstacle`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if why := obstacle(self.drafter, self.verification, self.policy):
            raise ValueError(f"a step cannot run on the device as a whole: {why}. Leave --lagged out.")
        drafter = on_device(self.drafter, self.max_batch_size, self.gamma)
        assert drafter is not None
        device = self.target.device
        # What the host must know of a batch is whose its rows are; the rest is in `Rows`.
        self._batch_device = torch.device("cpu")
        # The kernels find by positions what a query sees, but heads do not run on them.
        self._sees_all = self.target.on_kernels and not drafter.taps
        self._on_device, self._state = drafter, Rows(self.max_batch_size, drafter.width, device)
        self._make = partial(DeviceStep, self.target, self.cache, drafter, self._verifier, self._state, self.gamma)
        self._steps: dict[Hashable, tuple[DeviceStep, Parts]] = {}
        self._is_cuda = device.type == "cuda"
        self._capture: Callable[..., Any] | None = capture if self._is_cuda else None
        self._mark: Callable[[], Any] = partial(torch.cuda.Event, enable_timing=True) if self._is_cuda else _HostMark
        self._flight: _Flight | None = None
        self._last_mark: Any = None  # of the step before the one that is under way

    @property
    def has_work(self) -> bool:
        """Also while a step is under way whose requests have all ended."""
        return super().has_work or self._flight is not None

    @torch.inference_mode()
    def step(self) -> list[StepOutput]:
        """As `Engine.step`; before a request is admitted, what is under way is read."""
        admits = bool(self._waiting) and None in self._rows
        if self._flight is not None and (admits or not self.running):
            landing, self._flight = self._flight, None
            return self._read(landing)
        return super().step()

    def _admit(self, request: Request, row: int) -> StepOutput:
        output = super()._admit(request, row)
        if (sequence := self._rows[row]) is not None:
            self._on_device.enter(row)
            self._state.enter(row, sequence)
        return output

    @torch.inference_mode()
    def _release(self, row: int) -> None:
        super()._release(row)
        self._state.leave(row)

    def _advance(self) -> list[StepOutput]:
        landing = self._flight
        # The step under way gives every row one token at least.
        wanted = any(s is not None and s.room > (landing is not None) for s in self._rows)
        self._flight = self._launch() if wanted else None
        return [] if landing is None else self._read(landing)

    def _launch(self) -> _Flight:
        self.counters.busy(time.perf_counter())
        batch = self._live_batch()
        step, parts = self._step(batch)
        marks = [self._mark() for _ in range(len(parts) + 1)]
        for mark, part in zip(marks, parts.values(), strict=False):
            mark.record()
            part()
        # The next step writes over what this one leaves on the device.
        results = torch.empty(step.results.shape, dtype=torch.int64, pin_memory=self._is_cuda)
        results.copy_(step.results, non_blocking=True)
        asked = any(s is not None and s.request.params.logprobs is not None for s in batch.sequences)
        logits = step.logits.clone() if asked else step.logits
        marks[-1].record()
        return _Flight(batch.sequences, results, logits, tuple(parts), marks)

    def _step(self, batch: Batch) -> tuple[DeviceStep, Parts]:
        """A step for the rows of this batch, made when its like first comes."""
        size = min(_bucket(batch.size), self.max_batch_size)
        under_way = 0 if self._flight is None else self.gamma + 1
        span = max(_SPAN, _power_of_two(max(batch.lengths()) + under_way))
        longest = self.cache.slots if self._sees_all else min(span, self.cache.slots)
        warp = replace(batch.warp, max_top_k=_power_of_two(batch.warp.max_top_k))
        key = (size, longest, warp.all_greedy, warp.max_top_k, warp.any_top_p)
        if key not in self._steps:
            step = self._make(self._state.batch(size, warp, self._draft_stream), longest)
            self._steps[key] = step, self._captured(step)
        return self._steps[key]

    def _captured(self, step: DeviceStep) -> Parts:
        """A CUDA graph for each part, so that the device's clock can tell them apart."""
        if self._capture is None:
            return step.parts
        # Rows without room stay as they are, so the work that is done here, to no end, leaves no trace.
        room = self._state.room.clone()
        graphs: Parts = {}
        self._state.room.zero_()
        for phase, part in step.parts.items():
            graphs[phase], _ = self._capture(part)
            graphs[phase]()  # the next part reads what this one gives
        self._state.room.copy_(room)
        step.settle()
        return graphs

    def _read(self, landing: _Flight) -> list[StepOutput]:
        """Wait for a step, and give the requests that are still here what it came to."""
        landing.marks[-1].synchronize()
        read = landing.results.tolist()
        self._count(landing)
        outputs = []
        for row, sequence in enumerate(landing.sequences):
            if sequence is not None and self._rows[row] is sequence:
                drafted, kept, next_token, *draft = read[row]
                outputs.append(self._emit(row, [*draft[:kept], next_token], landing.logits[row], drafted, kept))
        return outputs

    def _count(self, landing: _Flight) -> None:
        """By the device's clock the parts of a step, and how long it waited for the host before."""
        counters, marks = self.counters, landing.marks
        if self._last_mark is not None:
            counters.seconds["host"] += self._last_mark.elapsed_time(marks[0]) / 1e3
        for phase, begun, ended in zip(landing.phases, marks, marks[1:], strict=False):
            counters.seconds[phase] += begun.elapsed_time(ended) / 1e3
        self._last_mark = None if self._flight is None else marks[-1]
        if self._flight is None:
            counters.idle(time.perf_counter())
        lengths = [1 if s is None else len(s.tokens) for s in landing.sequences]
        counters.count_pass(self.target.read_bytes + sum(lengths) * self.cache.bytes_per_token)


class _HostMark:
    """A `torch.cuda.Event` of a device that is done when the host is."""

    def record(self) -> None:
        self._at = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, later: _HostMark) -> float:
        """Milliseconds."""
        return (later._at - self._at) * 1e3


def _bucket(rows: int) -> int:
    """1, 2, 4, 8, 16, 24, 32 and so on."""
    return _power_of_two(rows) if rows <= 8 else -(-rows // 8) * 8


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length() if least else 0
