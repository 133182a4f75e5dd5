"""A claim: what somebody said, as figures under the names of the flags of `specbench claim`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from specbench.claims.arithmetic import kv_values_per_token, monthly_savings
from specbench.claims.figure import Figure, read_figure, spread
from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import Catalogue, Gpu, find_gpu

COUNTS = frozenset({"gpu_count", "batch_size", "gamma", "weight_bits", "replicas"})
"""Whole numbers and settings; gamma and batch_size may be ranges."""

EXACT = COUNTS | {"gpu_price"}
"""Figures that mean what they say; all others are taken as rounded at their last digit."""

SHARES = frozenset({"acceptance", "break_even_acceptance"})

SHAPES = frozenset({"kv_shape", "draft_kv_shape"})

SIGNED = frozenset({"cost_change"})

LARGEST_GAMMA = 1000


ONE = Figure(1, 1, 1, whole=True)


@dataclass(frozen=True, slots=True)
class Claim:
    """Every field but the GPUs' count may be unknown.

    gpu_price: per GPU-hour;  gpu_count: GPUs of one server;  cost, baseline_cost: per million output tokens
    tokens_per_second, baseline_tokens_per_second: output, of one server, all its requests together
    cost_change: -0.5 is half of the cost;  batch_size: requests in flight
    model_params, active_params: parameters in all, and that one token uses;  weight_bits: per parameter
    reported_speedup: what the source that the claim cites has
    acceptance: share of drafted tokens, or the probability of one;  acceptance_length: tokens per step, bonus included
    draft_cost: time of one draft token, in plain steps;  verify_cost: of a verification pass, in plain steps
    savings: per month;  engineering_cost: one-off;  replicas: servers
    ridge: FLOP per byte at which the GPU's arithmetic is the limit;  decode_intensity: FLOP per byte of decoding
    kv_shape, draft_kv_shape: values per token, of layers × KV heads × head size;  kv_increase: 1 is twice the cache
    """

    gpu: Gpu | None = None
    gpu_price: Figure | None = None
    gpu_count: Figure = ONE
    tokens_per_second: Figure | None = None
    baseline_tokens_per_second: Figure | None = None
    batch_size: Figure | None = None
    cost: Figure | None = None
    baseline_cost: Figure | None = None
    cost_change: Figure | None = None
    model_params: Figure | None = None
    active_params: Figure | None = None
    weight_bits: Figure | None = None
    speedup: Figure | None = None
    reported_speedup: Figure | None = None
    acceptance: Figure | None = None
    acceptance_length: Figure | None = None
    gamma: Figure | None = None
    draft_cost: Figure | None = None
    verify_cost: Figure | None = None
    break_even_acceptance: Figure | None = None
    tokens_per_month: Figure | None = None
    savings: Figure | None = None
    payback_weeks: Figure | None = None
    engineering_cost: Figure | None = None
    replicas: Figure | None = None
    ridge: Figure | None = None
    decode_intensity: Figure | None = None
    kv_shape: Figure | None = None
    draft_kv_shape: Figure | None = None
    kv_increase: Figure | None = None

    @property
    def price(self) -> Figure | None:
        """As claimed, else the range at which the catalogue has seen the GPU."""
        if self.gpu_price is not None or self.gpu is None or self.gpu.price is None:
            return self.gpu_price
        seen = self.gpu.price
        return Figure(seen.typical, seen.low, seen.high)

    @property
    def price_text(self) -> str | None:
        """The price with where it is from, unless it was claimed."""
        if self.gpu_price is not None or self.gpu is None or self.gpu.price is None:
            return None if self.gpu_price is None else f"{self.gpu_price}"
        seen = self.gpu.price
        span = f"{seen.low:g} to {seen.high:g}" if seen.low != seen.high else f"{seen.low:g}"
        return f"{seen.typical:g} ({seen.currency} {span} seen {seen.seen.replace('/', ' to ')})"

    @property
    def gpus_text(self) -> str:
        return f"{self.gpu_count.value:g} {self.gpu.name if self.gpu else 'GPU'}"

    @property
    def params_read(self) -> Figure | None:
        """Parameters that every step reads at least: the active ones of a mixture of experts."""
        return self.active_params or self.model_params

    @property
    def monthly_savings(self) -> Figure | None:
        """As claimed, else what the claimed costs give on the claimed volume."""
        if self.savings is not None or not (self.tokens_per_month and self.baseline_cost and self.cost):
            return self.savings
        return spread(monthly_savings, self.tokens_per_month, self.baseline_cost, self.cost)

    def known(self) -> set[str]:
        """Names of the inputs and of what follows from them, where anything was said."""
        names = {*INPUTS, *DERIVED} - {"gpu_count"}
        return {name for name in names if getattr(self, name) is not None}


INPUTS = tuple(field.name for field in fields(Claim))

DERIVED = {
    "price": "gpu_price",
    "price_text": "gpu_price",
    "params_read": "model_params",
    "monthly_savings": "savings",
}
"""What follows from inputs, and the input to give where it does not."""


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def read_claim(inputs: Mapping[str, object], gpus: Catalogue) -> Claim:
    """A claim from texts by field name, as flags or a file hold them. Raises SpecbenchError naming the flag."""
    read: dict[str, Gpu | Figure] = {}
    for name, written in inputs.items():
        if name not in INPUTS:
            raise SpecbenchError(f"{name!r} is no input of a claim. Known: {', '.join(INPUTS)}.")
        try:
            read[name] = find_gpu(str(written), gpus) if name == "gpu" else _read(name, written)
        except ValueError as error:
            raise SpecbenchError(f"{flag(name)}: {error}; got {str(written)!r}.") from None
    claim = Claim(**read)  # type: ignore[arg-type]
    if claim.model_params and claim.active_params and claim.model_params.below(claim.active_params):
        raise SpecbenchError(
            f"--active-params {claim.active_params} is more than --model-params {claim.model_params}: "
            "a token uses a part of all parameters. Swap them, or leave --active-params out."
        )
    return claim


def _read(name: str, written: object) -> Figure:
    if name in SHAPES:
        return _shape(str(written))
    figure = read_figure(written, rounded=name not in EXACT)
    if name in SIGNED:
        if figure.value <= -1:
            raise ValueError("expected more than -100%: a cost cannot fall to nothing")
        return replace(figure, low=max(figure.low, -1))
    if figure.value <= 0:
        raise ValueError("expected a number above 0")
    if name in SHARES and figure.value > 1:
        raise ValueError("expected a share of 1, such as 0.81 or 81%")
    if name in COUNTS - {"weight_bits"} and not (figure.low.is_integer() and figure.high.is_integer()):
        raise ValueError("expected a whole number")
    if name == "gamma" and figure.high > LARGEST_GAMMA:
        raise ValueError(f"expected {LARGEST_GAMMA} at most")
    most = 1.0 if name in SHARES else figure.high
    # Half a unit of the last digit may reach 0, at which prices and rates have no meaning.
    return replace(figure, low=max(figure.low, figure.value / 10), high=min(figure.high, most))


def _shape(written: str) -> Figure:
    match = re.fullmatch(r"(\d{1,5})[x×](\d{1,5})[x×](\d{1,5})", written.strip())
    if not match or "0" in match.groups():
        raise ValueError("expected LAYERSxKV_HEADSxHEAD_SIZE, such as 80x8x128")
    return Figure.exact(kv_values_per_token(*map(int, match.groups())))
