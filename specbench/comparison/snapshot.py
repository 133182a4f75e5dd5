"""What is kept of a run to compare it: figures by cell and replicate, and what they were made with. To be committed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from specbench.equivalence.greedy import Verdict
from specbench.errors import SpecbenchError
from specbench.store.atomic import replacing


class CellKey(NamedTuple):
    """By what cells of two runs are the same. Backend, target and sampling are the run's: see `fingerprint`."""

    workload: str
    method: str
    gamma: int
    as_deployed: bool
    batch_size: int
    request_rate: float | None

    @property
    def arm(self) -> str:
        """As in file names: `none`, `none-as-deployed`, `ngram-g4`."""
        if self.gamma:
            return f"{self.method}-g{self.gamma}"
        return f"{self.method}-as-deployed" if self.as_deployed else self.method

    @property
    def load(self) -> str:
        return f"batch {self.batch_size}" if self.request_rate is None else f"{self.request_rate:g} requests/s"

    def __str__(self) -> str:
        arm = f"{self.method} γ{self.gamma}" if self.gamma else "none, as deployed" if self.as_deployed else "none"
        load = f"batch size {self.batch_size}" if self.request_rate is None else f"{self.request_rate:g} requests/s"
        return f"{self.workload}, {arm}, {load}"


class CellFigures(BaseModel):
    """A cell's figures, one for each replicate of the snapshot; None where a replicate has none.

    failures: replicates in which it could not be measured;  error: why not, the first time
    left_out: why figures of some replicates are no evidence, in sentences
    unasked: whether most divergent outputs are ones that nobody could ask the baseline about
    within: of a run of one replicate, by metric as in `figures`: the standard error of the logarithm inside the launch
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: str
    method: str
    gamma: int
    as_deployed: bool = False
    batch_size: int
    request_rate: float | None = None
    failures: int = 0
    error: str | None = None
    left_out: tuple[str, ...] = ()
    acceptance_source: str | None = None
    equivalence: Verdict = "NOT_CHECKED"
    equivalence_detail: str = ""
    unasked: bool = False
    figures: Mapping[str, tuple[float | None, ...]] = {}
    within: Mapping[str, tuple[float | None, ...]] = {}

    @property
    def key(self) -> CellKey:
        rate = self.request_rate
        return CellKey(self.workload, self.method, self.gamma, self.as_deployed, self.batch_size, rate)


class Snapshot(BaseModel):
    """A run as a comparison sees it, and the content of a baseline file.

    fingerprint: what must be the same for a comparison;  made_with: what may differ, and is then named
    replicates:  numbers of the replicates that figures are of;  missing: how many planned measurements are not there
    gpu_price:   of one GPU-hour;  gpu_count: GPUs of one server
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    specbench_baseline: Literal[1] = 1
    run: str
    created_at: str = ""
    simulated: bool = False
    fingerprint: Mapping[str, Any]
    made_with: Mapping[str, Any]
    gpu_price: float | None = None
    gpu_count: int = 1
    currency: str = "USD"
    missing: int = 0
    replicates: tuple[int, ...]
    cells: tuple[CellFigures, ...]

    def by_key(self) -> dict[CellKey, CellFigures]:
        return {cell.key: cell for cell in self.cells}

    def write(self, path: Path) -> None:
        """As JSON, one cell a line, so that a new baseline is a readable diff."""
        record = self.model_dump(mode="json")
        cells = [json.dumps(_rounded(cell), ensure_ascii=False) for cell in record.pop("cells")]
        head = json.dumps(record, indent=1, ensure_ascii=False)[:-2]
        with replacing(path) as partial:
            partial.write_text(f'{head},\n "cells": [\n{_lines(cells)}\n ]\n}}\n', encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Snapshot:
        """Raises SpecbenchError for a file that `write` has not written."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (ValidationError, UnicodeDecodeError) as error:
            first = f"{error.errors()[0]['msg']}" if isinstance(error, ValidationError) else "not UTF-8"
            raise SpecbenchError(
                f"{path} is neither a run nor a baseline ({first}). Make one with: specbench baseline save RUN."
            ) from error


def _lines(cells: list[str]) -> str:
    return ",\n".join(f"  {cell}" for cell in cells)


def _rounded(cell: dict[str, Any]) -> dict[str, Any]:
    """Seven digits hold more than any of the figures does."""
    figures = {
        name: [None if value is None else float(f"{value:.7g}") for value in values]
        for name, values in cell["figures"].items()
    }
    return {**cell, "figures": figures}
