from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.decoder.load import load_engine
from specbench.decoder.models.linear import linear
from specbench.decoder.models.quantized import GROUP, Int4Linear, Int8Linear, forms, int4
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from tests.decoder.driving import run, tokens


def weights(outputs: int, inputs: int, seed: int) -> torch.Tensor:
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(seed))


@given(rows=st.integers(1, 9), sixteens=st.integers(1, 5), groups=st.integers(1, 4), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_no_weight_moves_by_more_than_half_a_code(rows: int, sixteens: int, groups: int, seed: int) -> None:
    weight = weights(16 * sixteens, GROUP * groups, seed)
    x = torch.rand(rows, weight.shape[1], generator=torch.Generator().manual_seed(seed))
    exact = x @ weight.t()
    spans = weight.unflatten(1, (-1, GROUP))
    step4 = ((spans.amax(2) - spans.amin(2)) / 15).repeat_interleave(GROUP, 1)
    step8 = weight.abs().amax(1, keepdim=True) / 127
    for product, step in ((Int4Linear(weight), step4), (Int8Linear(weight), step8)):
        allowed = x @ (step.expand_as(weight) / 2).t() + 1e-3
        assert ((product(x) - exact).abs() <= allowed).all()


def test_groups_of_sixteen_levels_lose_nothing() -> None:
    """As in llama.cpp's Q4_1: a scale and a smallest value per group of 32."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 16, (32, 2, GROUP), generator=generator)
    codes[:, :, 0], codes[:, :, 1] = 0, 15
    weight = (codes * torch.rand(32, 2, 1, generator=generator) - 1).flatten(1)
    x = torch.randn(4, weight.shape[1], generator=generator)
    torch.testing.assert_close(int4(weight)(x), x @ weight.t(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("form", [Int4Linear, Int8Linear])
def test_bias_and_what_follows_are_those_of_a_plain_product(form: type[Int4Linear] | type[Int8Linear]) -> None:
    weight, bias, x = weights(48, 64, 1), torch.randn(48), torch.randn(3, 64)
    quantized, other = form(weight, bias), torch.randn(3, 48)
    y = quantized(x)
    plain = form(weight)
    torch.testing.assert_close(y, plain(x) + bias)
    torch.testing.assert_close(quantized.plus(x, other), y + other)
    torch.testing.assert_close(quantized.times(x, other), y * other)
    torch.testing.assert_close(quantized.silu(x), torch.nn.functional.silu(y))


def test_a_shape_that_four_bits_do_not_take_has_eight() -> None:
    assert isinstance(int4(weights(32, 64, 0)), Int4Linear)
    assert isinstance(int4(weights(32, 48, 0)), Int8Linear)
    assert isinstance(int4(weights(24, 64, 0)), Int8Linear)


def test_bits_are_what_the_name_says() -> None:
    weight = weights(256, 256, 0).to(torch.bfloat16)
    assert linear(weight).nbytes == 2 * weight.numel()
    assert Int8Linear(weight).nbytes == weight.numel() + 2 * 256
    assert Int4Linear(weight).nbytes == weight.numel() / 2 + 4 * weight.numel() / GROUP


def test_a_quantized_target_keeps_its_outputs_under_speculation(tiny_target: Path) -> None:
    """Which need not be those of the target before."""
    prompt = list(range(7)) * 3
    outputs = {}
    for method, gamma in (("none", 0), ("ngram", 3)):
        engine = load_engine(
            tiny_target, method=method, gamma=gamma, dtype="float32", max_model_len=64, quantization="int8"
        )
        request = Request("a", prompt, SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True))
        outputs[method] = tokens(run(engine, [request]))["a"]
    assert outputs["ngram"] == outputs["none"]
    whole = load_engine(tiny_target, dtype="float32", max_model_len=64)
    assert engine.target.weights_bytes < whole.target.weights_bytes


def test_unknown_names_and_places_without_kernels_are_refused() -> None:
    with pytest.raises(ValueError, match="int8, int4"):
        forms("fp3", torch.device("cpu"))
    with pytest.raises(ValueError, match="CPU alone"):
        forms("int8", torch.device("cuda"))
