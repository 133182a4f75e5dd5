"""Both forms of a weight compute the same products."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from specbench.decoder.models.linear import Linear, PackedLinear, PlainLinear, linear, packs_bfloat16


@pytest.fixture(params=[PackedLinear, PlainLinear])
def form(request: pytest.FixtureRequest) -> type[PackedLinear | PlainLinear]:
    return request.param


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 5, 64])
@pytest.mark.parametrize("with_bias", [False, True])
def test_products_and_what_follows_them(
    form: type[PackedLinear | PlainLinear], dtype: torch.dtype, rows: int, with_bias: bool
) -> None:
    if form is PackedLinear and dtype == torch.bfloat16 and not packs_bfloat16():
        pytest.skip("oneDNN does not multiply in bfloat16 on this CPU")
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("size", [8, 1100])
def test_whatever_form_is_chosen_the_product_is_the_same(dtype: torch.dtype, size: int) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(3, size), torch.randn(size, size) / size**0.5
    exact = F.linear(x.to(dtype).double(), weight.to(dtype).double())
    tolerance = 0.03 if dtype == torch.bfloat16 else 1e-5
    result = linear(weight.to(dtype))(x.to(dtype)).double()
    torch.testing.assert_close(result, exact, atol=tolerance, rtol=tolerance)


def test_a_cpu_packs_large_weights_where_onednn_has_kernels_for_them() -> None:
    assert isinstance(linear(torch.ones(1100, 1100)), PackedLinear)
    in_bfloat16 = linear(torch.ones(8, 8, dtype=torch.bfloat16))
    assert isinstance(in_bfloat16, PackedLinear if packs_bfloat16() else PlainLinear)
    assert isinstance(linear(torch.ones(1100, 1100, dtype=torch.float64)), PlainLinear)
