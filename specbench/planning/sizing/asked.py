"""What a user asks to be planned: what is known of it, the site, and the sites beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import Catalogue, find_gpu
from specbench.planning.shape import STAND_IN
from specbench.planning.sizing.known import Known, from_catalogue, from_run
from specbench.planning.sizing.site import Site, other_sites, site_of, site_of_unknown
from specbench.planning.sizing.target import dtype_of, shape_of
from specbench.speculation import METHODS
from specbench.store.run import RunStore


@dataclass(frozen=True)
class Asked:
    """As the options of `specbench plan` have it; None and empty where nothing was said."""

    model: str | None
    dtype: str | None
    method: str | None
    workload: str | None
    acceptance: Sequence[float]
    gpu: str | None
    gpu_count: int | None
    gpu_price: float | None
    currency: str
    what_if: Sequence[str]
    quantization: Sequence[str]


def resolve(asked: Asked, store: RunStore | None, gpus: Catalogue) -> tuple[Known, Site, list[Site]]:
    """Raises SpecbenchError for what does not belong together, or is not enough."""
    if asked.method is not None and asked.method not in METHODS[1:]:
        raise SpecbenchError(f"--method: {asked.method!r} is not known. Choose from: {', '.join(METHODS[1:])}.")
    known, site, dtype = _from_catalogue(asked, gpus) if store is None else _from_run(asked, store, gpus)
    if asked.acceptance:
        known = known.accepting(asked.acceptance)
    compared = [find_gpu(name, gpus) for name in asked.what_if]
    return known, site, [*other_sites(site, dtype, compared, asked.quantization, asked.currency)]


def _from_catalogue(asked: Asked, gpus: Catalogue) -> tuple[Known, Site, str]:
    if asked.model is None or asked.gpu is None:
        raise SpecbenchError("give a RUN to plan from, or both --model and --gpu to plan from the catalogue.")
    dtype, gpu = asked.dtype or "bf16", find_gpu(asked.gpu, gpus)
    site = site_of(gpu, asked.gpu_count or 1, shape_of(asked.model), dtype, asked.gpu_price, asked.currency)
    return from_catalogue(site.shape, gpu, site.machine, asked.method or "eagle3"), site, dtype


def _from_run(asked: Asked, store: RunStore, gpus: Catalogue) -> tuple[Known, Site, str]:
    known = from_run(store, asked.workload, asked.method)
    model = known.fit.model
    if model.shape == STAND_IN and asked.model is None and (asked.gpu or asked.what_if or asked.quantization):
        raise SpecbenchError(
            "the run's target is not here, and what other hardware makes of it depends on its size: name it with "
            "--model."
        )
    shape = shape_of(asked.model) if asked.model else model.shape
    dtype = asked.dtype or ("bf16" if asked.model else dtype_of(model.shape))
    gpu = find_gpu(asked.gpu, gpus) if asked.gpu else known.gpu
    if gpu is None:
        settings = store.manifest["config"]
        told = settings.get("gpu_price") if settings.get("currency", "USD") == asked.currency else None
        price = told if asked.gpu_price is None else asked.gpu_price
        return known, site_of_unknown(shape, model.machine, price), dtype
    count = asked.gpu_count or model.machine.count
    return known, site_of(gpu, count, shape, dtype, asked.gpu_price, asked.currency), dtype
