"""Where a fleet may run: a GPU, how many to a replica, the weights' type, the rent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import Gpu
from specbench.planning.machine import Machine
from specbench.planning.shape import ModelShape
from specbench.planning.sizing.known import Known
from specbench.planning.sizing.memory import NOT_SAID, cache_tokens
from specbench.planning.sizing.target import with_weights

GIVEN = "as given"
_PRICE_RANGE = 1.3
"""How far a given price may move: another contract, another year."""


@dataclass(frozen=True)
class Site:
    """gpu: None for the machine of a run that the catalogue does not have
    price: per GPU-hour;  prices: range that it was seen in;  priced: in words
    """

    name: str
    gpu: Gpu | None
    shape: ModelShape
    machine: Machine
    price: float
    prices: tuple[float, float]
    priced: str

    def kv_tokens(self, known: Known) -> tuple[int, int]:
        """Without and with the drafter: the engine's own figures where it was measured, else by memory.

        Raises SpecbenchError where the weights do not fit.
        """
        if self.is_measured(known) and known.kv_tokens is not None:
            return known.kv_tokens
        if self.gpu is None:
            return NOT_SAID, NOT_SAID
        count = self.machine.count
        plain = cache_tokens(self.shape, "none", self.gpu, count)
        return plain, cache_tokens(self.shape, known.arm[1], self.gpu, count)

    def is_measured(self, known: Known) -> bool:
        model = known.fit.model
        return known.is_measured and (self.shape, self.machine) == (model.shape, model.machine)


def site_of(gpu: Gpu, count: int, shape: ModelShape, dtype: str, price: float | None, currency: str) -> Site:
    """price: a user's own; the catalogue's without one. Raises SpecbenchError where there is none in that currency."""
    shape, precision = with_weights(shape, dtype)
    machine = Machine.of(gpu, count, precision)
    name = f"{count} × {gpu.name}, {dtype}" if count > 1 else f"{gpu.name}, {dtype}"
    if price is not None:
        return Site(name, gpu, shape, machine, price, _around(price), GIVEN)
    seen = gpu.price
    if seen is None or seen.currency != currency:
        raise SpecbenchError(
            f"there is no price of {gpu.name} in {currency}: give one per GPU-hour with --gpu-price, or in a file with "
            "--hardware."
        )
    months = seen.seen.replace("/", " to ")
    priced = f"seen at {seen.low:.2f} to {seen.high:.2f} {currency}, {months}; {seen.source}"
    return Site(name, gpu, shape, machine, seen.typical, (seen.low, seen.high), priced)


def site_of_unknown(shape: ModelShape, machine: Machine, price: float | None) -> Site:
    """The machine that a run was measured on, where the catalogue does not have it. Raises without a price."""
    if price is None:
        raise SpecbenchError("--gpu-price: what an hour of the run's machine costs is not known; give it, or a --gpu.")
    return Site("the run's machine", None, shape, machine, price, _around(price), GIVEN)


def other_sites(base: Site, dtype: str, gpus: Sequence[Gpu], dtypes: Sequence[str], currency: str) -> Iterator[Site]:
    """Each GPU with each type of weights, as many to a replica, but for the base itself, whose GPU keeps its price."""
    by_name = {gpu.name: gpu for gpu in (*([base.gpu] if base.gpu else []), *gpus)}
    if dtypes and not by_name:
        raise SpecbenchError("--quantization: on the run's own machine that is not known; name a --gpu or --what-if.")
    for gpu, weights in product(by_name.values(), dict.fromkeys((dtype, *dtypes))):
        same = gpu == base.gpu
        if not (same and weights == dtype):
            price = base.price if same and base.priced == GIVEN else None
            yield site_of(gpu, base.machine.count, base.shape, weights, price, currency)


def _around(price: float) -> tuple[float, float]:
    return price / _PRICE_RANGE, price * _PRICE_RANGE
