"""Both forms of a weight compute the same products."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from specbench.decoder.models.linear import Linear, PackedLinear, PlainLinear, linear


@pytest.fixture(params=[PackedLinear, PlainLinear])
def form(request: pytest.FixtureRequest) -> type[PackedLinear | PlainLinear]:
    return request.param


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 5, 64])
@pytest.mark.parametrize("with_bias", [False, True])
def test_products_and_what_follows_them(
    form: type[PackedLinear | PlainLinear], dtype: torch.dtype, rows: int, with_bias: bool
) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(rows, 48), torch.randn(40, 48) / 7
    bias, other = torch.randn(40) if with_bias else None, torch.randn(rows, 40)
    x, weight, other = x.to(dtype), weight.to(dtype), other.to(dtype)
    bias = None if bias is None else bias.to(dtype)
    layer: Linear = form(weight, bias)
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    tolerance = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.05, "rtol": 0.02}
    untouched = other.clone()
    torch.testing.assert_close(layer(x).double(), exact, **tolerance)
    torch.testing.assert_close(layer.silu(x).double(), F.silu(exact), **tolerance)
    torch.testing.assert_close(layer.plus(x, other).double(), exact + other.double(), **tolerance)
    torch.testing.assert_close(layer.times(x, other).double(), exact * other.double(), **tolerance)
    assert torch.equal(other, untouched)


def test_a_cpu_packs_what_onednn_has_kernels_for() -> None:
    assert isinstance(linear(torch.ones(8, 8)), PackedLinear)
    assert isinstance(linear(torch.ones(8, 8, dtype=torch.float64)), PlainLinear)
