"""The hardware catalogue: memory, bandwidth, arithmetic rate and dated prices of accelerators, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from specbench.errors import SpecbenchError
from specbench.quantities import Number, Price
from specbench.yaml_file import read_mapping

Precision = Literal["fp32", "fp16", "bf16", "fp8", "fp4"]

_SAME_RATE: Mapping[Precision, Precision] = {"fp16": "bf16", "bf16": "fp16"}

SHIPPED = Path(__file__).with_name("gpus.yaml")

_Positive = Annotated[Number, Field(gt=0)]
_EDGE = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SeenPrice(BaseModel):
    """What a GPU-hour was offered at, on demand.

    low, high: the range over providers;  list: one price quoted for it, None where there was none
    seen: the month, or two months with a slash between them (ISO 8601)
    """

    model_config = _EDGE

    low: Price
    high: Price
    list: Price | None = None
    currency: str = "USD"
    seen: str
    source: str

    @model_validator(mode="after")
    def _in_order(self) -> SeenPrice:
        if not self.low <= (self.list or self.low) <= self.high:
            raise ValueError("the list price must lie between low and high, and low must not be above high")
        return self

    @property
    def typical(self) -> float:
        """The list price; without one the middle of the range."""
        return self.list or (self.low + self.high) / 2


class Gpu(BaseModel):
    """One accelerator. Unknown figures are None or left out of `tflops`.

    memory_gib: what the driver shows, of 2³⁰ bytes;  bandwidth_tb_per_s: of its memory, peak, 10¹² bytes
    tflops: 10¹² FLOP/s by precision, dense, peak;  watts: thermal design power
    aliases: other names that people and drivers give it
    """

    model_config = _EDGE

    name: str
    memory_gib: _Positive
    bandwidth_tb_per_s: _Positive
    tflops: Mapping[Precision, _Positive] = Field(default_factory=dict)
    watts: _Positive | None = None
    price: SeenPrice | None = None
    aliases: tuple[str, ...] = ()
    source: str

    @property
    def memory(self) -> float:
        """Bytes."""
        return self.memory_gib * 2**30

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.bandwidth_tb_per_s * 1e12

    def flops(self, precision: Precision) -> float | None:
        """Dense FLOP/s. 16-bit formats run at one rate on chips that have both."""
        rate = self.tflops.get(precision) or self.tflops.get(_SAME_RATE.get(precision, precision))
        return rate * 1e12 if rate else None


Catalogue = Mapping[str, Gpu]


def catalogue(user: Path | None = None) -> Catalogue:
    """The shipped GPUs by name, with a user's file on top: new entries, or fields of known ones by name or alias.

    Raises SpecbenchError naming the file, the entry and the field.
    """
    if user is None:
        return _shipped()
    entries = {name: gpu.model_dump(exclude={"name"}, exclude_unset=True) for name, gpu in _shipped().items()}
    for name, fields in read_mapping(user).items():
        if not isinstance(fields, dict):
            raise SpecbenchError(f"{user}: {name}: expected fields such as memory_gib; got {fields!r}.")
        known = _find(str(name), _shipped())
        key = known.name if known else str(name)
        entries[key] = {**entries.get(key, {}), **({} if known else {"source": str(user)}), **fields}
    return _validated(entries, user)


def find_gpu(name: str, gpus: Catalogue) -> Gpu:
    """By its name or an alias, whatever the case, blanks and hyphens. Raises SpecbenchError with near names."""
    found = _find(name, gpus)
    if found is None:
        plain = {_plain(known): known for known in gpus}
        near = get_close_matches(_plain(name), plain, n=1, cutoff=0.5)
        hint = f" Did you mean {plain[near[0]]}?" if near else ""
        raise SpecbenchError(
            f"no GPU {name!r} in the catalogue.{hint} See `specbench gpus`, or give its figures with --hardware FILE."
        )
    return found


def shipped_bandwidth(name: str) -> float | None:
    """Bytes per second of the GPU that a driver calls by this name; None where the catalogue does not have it."""
    found = _find(name, _shipped())
    return found.bandwidth if found else None


@cache
def _shipped() -> Catalogue:
    return _validated(read_mapping(SHIPPED), SHIPPED)


def _validated(entries: Mapping[str, Any], path: Path) -> Catalogue:
    gpus: dict[str, Gpu] = {}
    for name, fields in entries.items():
        try:
            gpus[name] = Gpu.model_validate({**fields, "name": name})
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "entry"
            reason = first["msg"].removeprefix("Value error, ")
            raise SpecbenchError(f"{path}: {name}: {field}: {reason}.") from error
    return gpus


def _find(name: str, gpus: Catalogue) -> Gpu | None:
    wanted = _plain(name)
    return next((g for g in gpus.values() if wanted in map(_plain, (g.name, *g.aliases))), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", re.sub(r"^\s*nvidia\b", "", name.lower()))
