"""Every kernel gives what its plain-torch twin gives. Triton interprets the kernels here (conftest.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextvars import copy_context
from functools import partial

import pytest
import torch
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from triton.runtime.interpreter import InterpretedFunction

from specbench.decoder import graphs, kernels, noise
from specbench.decoder.engine import Engine
from specbench.decoder.gpu_check import cases
from specbench.decoder.gpu_check.cases import Case, Shape
from specbench.decoder.gpu_check.engines import make_engine, prompts, run, tokens
from specbench.decoder.gpu_check.kernels import TOLERANCE, worst_difference
from specbench.decoder.gpu_check.models import TINY, TINY_DRAFT, random_llama
from specbench.decoder.kernels.greedy import greedy, greedy_twin
from specbench.decoder.kernels.random import exponential, key, salt, uniform
from specbench.decoder.kernels.rejection import rejection, rejection_twin
from specbench.decoder.sampling import SamplingParams

CPU = torch.device("cpu")

SHAPES = st.builds(
    Shape,
    batch=st.integers(1, 9),
    gamma=st.integers(0, 7),
    group=st.sampled_from([1, 3, 4, 8]),
    kv_heads=st.integers(1, 2),
    dim=st.sampled_from([64, 128]),
    context=st.integers(24, 200),
    hidden=st.integers(1, 300),
    vocab=st.integers(2, 600),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    splits=st.sampled_from([1, 2, 4]),
    block=st.sampled_from([128, 256]),
    seed=st.integers(0, 2**31),
)


def differences(case: Case) -> float:
    return max(worst_difference(ours, theirs) for ours, theirs in zip(case.kernel(), case.twin(), strict=True))


@pytest.mark.parametrize(
    "build",
    [
        cases.attention_case,
        cases.norm_case,
        cases.rotary_case,
        cases.silu_case,
        cases.greedy_case,
        cases.rejection_case,
        cases.warped_rejection_case,
        cases.one_hot_rejection_case,
    ],
)
@settings(max_examples=5)
@given(shape=SHAPES)
def test_a_kernel_gives_what_its_twin_gives(build: Callable[[Shape, torch.device], Case], shape: Shape) -> None:
    assert differences(build(shape, CPU)) <= TOLERANCE[shape.dtype]


def _draw(seeds, positions, uniforms, exponentials, SALT: tl.constexpr, VOCAB: tl.constexpr):
    row = tl.program_id(0)
    start = key(tl.load(seeds + row), tl.load(positions + row), SALT)
    ids = tl.arange(0, VOCAB)
    tl.store(uniforms + row, uniform(start))
    tl.store(exponentials + row * VOCAB + ids, exponential(start, ids))


@given(
    seeds=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4),
    first=st.integers(0, 2**40),
    stream=st.integers(0, 5),
)
def test_random_numbers_in_kernels_are_those_of_the_decoder(seeds: list[int], first: int, stream: int) -> None:
    seed, positions = torch.tensor(seeds), first + torch.arange(len(seeds))
    u, e = torch.empty(len(seeds)), torch.empty(len(seeds), 64)
    InterpretedFunction(_draw)[(len(seeds),)](seed, positions, u, e, SALT=salt(stream), VOCAB=64)
    assert torch.equal(u, noise.uniform(seed, positions[:, None], stream)[:, 0])
    torch.testing.assert_close(e, noise.exponential(seed, positions[:, None], stream, 64)[:, 0], rtol=1e-6, atol=0)


def verification_inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits [4, 3, 90] of a draft [4, 2] that the target would have chosen itself; seeds [4] and positions [4, 3]."""
    logits = torch.randn(4, 3, 90, generator=torch.Generator().manual_seed(7))
    return logits, logits.argmax(-1)[:, :-1].contiguous(), torch.arange(4), torch.arange(12).view(4, 3)


def test_a_verdict_that_is_given_stands_and_what_follows_it_is_the_targets() -> None:
    logits, draft, seeds, positions = verification_inputs()
    verdict = torch.tensor([0, 1, 2, 1])
    ours, theirs = greedy(logits, draft, verdict), greedy_twin(logits, draft, verdict)
    assert torch.equal(ours.accepted, verdict)
    assert torch.equal(ours.next_token, theirs.next_token)
    temperature = torch.full((4,), 0.9)
    # Rejected though p and q are the same: nothing is left of p - q, and the token is drawn from p.
    inputs = (logits, logits[:, :-1].contiguous(), draft, temperature, seeds, positions, verdict)
    ours, theirs = rejection(*inputs, block=64), rejection_twin(*inputs)
    assert torch.equal(ours.accepted, verdict)
    assert torch.equal(ours.next_token, theirs.next_token)


def test_tokens_that_the_target_excludes_are_never_drawn_and_whole_blocks_of_them_do_no_harm() -> None:
    logits, draft, seeds, positions = verification_inputs()
    logits[:, :, :64] = -torch.inf
    inputs = (logits, None, draft, torch.full((4,), 5.0), seeds, positions)
    ours, theirs = rejection(*inputs, block=64), rejection_twin(*inputs)
    assert torch.equal(ours.accepted, theirs.accepted)
    assert torch.equal(ours.next_token, theirs.next_token)
    assert ours.next_token.min() >= 64


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_an_engine_on_the_kernels_gives_the_tokens_of_one_without(
    monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """The seams of model, cache, graphs and verifier: prompts, drafting with catch-up, rows of other lengths."""

    def engine(*, on_kernels: bool) -> Engine:
        target, draft = (
            random_llama(shape, torch.float32, CPU, fading=True, on_kernels=on_kernels) for shape in (TINY, TINY_DRAFT)
        )
        drafter = draft if temperature == 0 else "ngram"
        return make_engine(target, drafter, gamma=2, rows=2, length=16)

    params = SamplingParams(temperature=temperature, max_tokens=4, ignore_eos=True)
    texts = [text[: 4 + i] for i, text in enumerate(prompts(2, 8, TINY["vocab_size"]))]
    captured, replayed = [], []

    def capture(work: Callable[[], tuple[Tensor, ...]]) -> tuple[Callable[[], None], tuple[Tensor, ...]]:
        """As a CUDA graph: does the same work again, on what lies in the same places now."""
        results = work()
        captured.append(work)

        def replay() -> None:
            replayed.append(work)
            for result, again in zip(results, work(), strict=True):
                result.copy_(again)

        return replay, results

    monkeypatch.setattr(kernels, "usable", lambda device, dtype: True)
    monkeypatch.setattr(graphs, "capture", capture)
    plain = run(engine(on_kernels=False), texts, params)
    assert not captured  # they run where they are asked for
    launched = engine(on_kernels=True)
    assert "kernels" in type(launched._verifier).__module__
    assert [tokens(outputs) for outputs in run(launched, texts, params)] == [tokens(outputs) for outputs in plain]
    assert 0 < len(captured) < len(replayed)


def test_a_pass_within_a_step_that_is_captured_is_a_part_of_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    captured: list[str] = []

    def capture(work: Callable[[], object]) -> tuple[Callable[[], object], object]:
        captured.append(work.__name__)
        return partial(copy_context().run, work), work()  # done again as it was when it was captured

    monkeypatch.setattr(kernels, "usable", lambda device, dtype: True)
    monkeypatch.setattr(graphs, "_capture", capture)
    shapes = (TINY, TINY_DRAFT)
    target, draft = (random_llama(shape, torch.float32, CPU, fading=True, on_kernels=True) for shape in shapes)
    texts = [text[: 4 + i] for i, text in enumerate(prompts(2, 8, TINY["vocab_size"]))]
    params = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
    target._graphs = draft._graphs = None
    led = run(make_engine(target, draft, gamma=2, rows=2, length=16), texts, params)
    target._graphs, draft._graphs = graphs.Graphs(), graphs.Graphs()
    lagged = make_engine(target, draft, gamma=2, rows=2, length=16, lagged=True)
    lagged._capture = graphs.capture
    assert run(lagged, texts, params) == led
    # There is one step, of two rows; prompts, of a shape each, are not captured.
    assert Counter(captured) == {"_propose": 1, "_verify": 1, "_accept": 1}
