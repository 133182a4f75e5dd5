"""How long each part of a step takes, over batch sizes and gammas."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from specbench.decoder import noise, verify
from specbench.decoder.batch import Batch
from specbench.decoder.cache import KVCache
from specbench.decoder.drafters.draft_model import DraftModel
from specbench.decoder.engine import cache_slots
from specbench.decoder.gpu_check.engines import make_engine, prompts
from specbench.decoder.gpu_check.figures import Figure
from specbench.decoder.gpu_check.models import Pair
from specbench.decoder.gpu_check.timing import seconds, wait
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import Request, SequenceState
from specbench.decoder.sampling import SamplingParams, Warp, warp

ACCEPTANCE = 0.8


@dataclass(frozen=True, slots=True)
class Scale:
    """Over what is measured, and how often.

    context: tokens per request at the beginning · steps: of whole decoding that are timed
    bandwidth: bytes per second, what `of_bandwidth` is of · decoded: the batch sizes of whole decoding
    """

    batch_sizes: tuple[int, ...]
    gammas: tuple[int, ...]
    context: int
    repeats: int
    steps: int
    bandwidth: float
    decoded: tuple[int, ...]


def passes(pair: Pair, target: Llama, scale: Scale) -> Iterator[Figure]:
    """One forward pass of the target by batch size and width: plain decoding (gamma 0) and verification."""
    device, largest = target.device, max(scale.batch_sizes)
    slots = scale.context + max(scale.gammas) + 1
    cache = KVCache(target.config, largest, slots, target.dtype, device)
    for batch_size in scale.batch_sizes:
        held = torch.arange(scale.context, device=device).expand(batch_size, -1)
        cache.enter(slice(0, batch_size), held, held, used=scale.context)
        for gamma in (0, *scale.gammas):
            at = (scale.context + torch.arange(gamma + 1, device=device)).expand(batch_size, -1)
            ids = torch.randint(target.config.vocab_size, at.shape, device=device)

            def work(ids: Tensor = ids, at: Tensor = at, rows: int = batch_size, width: int = gamma + 1) -> None:
                view = cache.enter(slice(0, rows), at, at, used=scale.context + width)
                target.forward(ids, view, logits=width)

            took = seconds(work, device, repeats=scale.repeats)
            moved = target.read_bytes + batch_size * scale.context * cache.bytes_per_token
            yield Figure(
                "verify pass" if gamma else "plain pass",
                pair.target,
                took * 1e3,
                "ms",
                batch_size,
                gamma,
                scale.context,
                of_bandwidth=moved / (scale.bandwidth * took),
            )


def accepts(pair: Pair, target: Llama, scale: Scale) -> Iterator[Figure]:
    """From logits to verdicts: greedily, and by rejection at temperature 0.8."""
    device, vocab = target.device, target.config.vocab_size
    for batch_size in scale.batch_sizes:
        rows = Warp.stack([SamplingParams(temperature=0.8)] * batch_size, device)
        seeds = torch.arange(batch_size, device=device)
        for gamma in scale.gammas:
            logits = torch.randn(batch_size, gamma + 1, vocab, dtype=target.dtype, device=device)
            draft = torch.randint(vocab, (batch_size, gamma), device=device)
            at = torch.arange(gamma + 1, device=device).expand(batch_size, -1)
            q = logits[:, :-1].float().softmax(-1)

            def greedy(logits: Tensor = logits, draft: Tensor = draft) -> None:
                verify.greedy(logits.argmax(-1), draft)

            def rejection(
                logits: Tensor = logits, q: Tensor = q, draft: Tensor = draft, at: Tensor = at, rows: Warp = rows,
                seeds: Tensor = seeds,
            ) -> None:  # fmt: skip
                verify.rejection(warp(logits, rows), q, draft, seeds, at)

            for name, work in (("accept, greedy", greedy), ("accept, rejection", rejection)):
                took = seconds(work, device, repeats=scale.repeats)
                yield Figure(name, pair.target, took * 1e3, "ms", batch_size, gamma)


def drafts(pair: Pair, drafter: Llama, scale: Scale) -> Iterator[Figure]:
    """The draft loop, gamma tokens after one that was just committed."""
    device, vocab = drafter.device, drafter.config.vocab_size
    params = SamplingParams(temperature=0.0, max_tokens=1_000)
    for batch_size in scale.batch_sizes:
        for gamma in scale.gammas:
            length = scale.context + 2 * (scale.repeats + 8) + gamma
            loop = DraftModel(drafter, batch_size, cache_slots(length, gamma))
            texts = prompts(batch_size, scale.context, vocab)
            rows = [SequenceState(Request(str(i), t, params), frozenset(), length, t) for i, t in enumerate(texts)]
            for row, sequence in enumerate(rows):
                loop.prefill(row, sequence, None)
            batch = Batch.of(rows, noise.DRAFT, device)

            def work(loop: DraftModel = loop, batch: Batch = batch, gamma: int = gamma) -> None:
                for sequence in batch.sequences:
                    if sequence is not None:
                        sequence.tokens.append(1)
                loop.propose(batch, [gamma] * batch.size)

            took = seconds(work, device, repeats=scale.repeats)
            yield Figure("draft loop", pair.drafter, took * 1e3, "ms", batch_size, gamma, scale.context)


def decoding(pair: Pair, target: Llama, drafter: Llama, scale: Scale) -> Iterator[Figure]:
    """Whole decoding, host and all: plain, and with acceptance made up, so that random weights draft as a good drafter
    would; each by steps that the host leads, and by lagged ones.
    """
    for batch_size, gamma in product(scale.decoded, (0, *scale.gammas)):
        for what, lagged in (("decoding", False), ("decoding, lagged", True)):
            rate = _tokens_per_s(target, drafter if gamma else "none", gamma, batch_size, scale, lagged=lagged)
            yield Figure(
                what,
                pair.target,
                rate,
                "tokens/s",
                batch_size,
                gamma,
                scale.context,
                synthetic=ACCEPTANCE if gamma else None,
            )


def _tokens_per_s(
    target: Llama, drafter: Llama | str, gamma: int, batch_size: int, scale: Scale, *, lagged: bool
) -> float:
    warm_up = 12  # until a draft has been accepted whole: what then differs is captured, and not in the time
    length = scale.context + (scale.steps + warm_up + 2) * (gamma + 1)
    rate = ACCEPTANCE if gamma else None
    engine = make_engine(target, drafter, gamma=gamma, rows=batch_size, length=length, acceptance=rate, lagged=lagged)
    params = SamplingParams(temperature=0.0, max_tokens=length, ignore_eos=True)
    for i, text in enumerate(prompts(batch_size, scale.context, target.config.vocab_size)):
        own = SamplingParams(temperature=0.0, max_tokens=params.max_tokens, ignore_eos=True, seed=i)
        engine.add(Request(str(i), text, own))
    while engine.waiting:
        engine.step()
    for _ in range(warm_up):
        engine.step()
    wait(target.device)
    begun, before = time.perf_counter(), engine.counters.generated
    for _ in range(scale.steps):
        engine.step()
    wait(target.device)
    return (engine.counters.generated - before) / (time.perf_counter() - begun)
