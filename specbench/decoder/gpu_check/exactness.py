"""Is what comes out of the decoder on this device what its target says?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from specbench.decoder import kernels, noise
from specbench.decoder.cache import KVCache
from specbench.decoder.gpu_check.engines import make_engine, prompts, run, tokens
from specbench.decoder.gpu_check.models import MARKOV, SMALL, SMALL_DRAFT, random_llama
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import StepOutput
from specbench.decoder.sampling import SamplingParams

GAMMA = 3
LEAST_P = 1e-6
"""Below this a sampler is held for wrong: an exact one is there once in a million runs."""

NEAR_TIE = {torch.float32: 1e-3, torch.bfloat16: 0.25}
"""Nats between the best token and another up to which rounding may choose either."""

ALTERNATIVES = 8
"""Tokens among which the other has to be."""


@dataclass(frozen=True, slots=True)
class Check:
    """name: stable · ok: None where it only tells, and does not judge · detail: a sentence for people"""

    name: str
    ok: bool | None
    detail: str


def check_noise(device: torch.device) -> Check:
    """The random numbers of accept tests are the same bits on every device."""
    seeds, positions = torch.arange(64) * 1_000_003 - 5, torch.arange(256).expand(64, -1)
    here = noise.uniform(seeds.to(device), positions.to(device), noise.ACCEPT).cpu()
    same = torch.equal(here, noise.uniform(seeds, positions, noise.ACCEPT))
    return Check("noise", same, f"{here.numel():,} uniform numbers {'equal' if same else 'DIFFER from'} the CPU's")


def check_greedy(device: torch.device, dtype: torch.dtype, requests: int, *, on_kernels: bool = False) -> list[Check]:
    """Greedy outputs of each method against plain decoding in PyTorch: the same tokens but for near ties.

    In float32 a difference at more than 0.001 nats is a bug; in bfloat16 differences are counted, and one at more than
    0.25 nats is a bug.
    """
    target, draft = _models(SMALL, SMALL_DRAFT, dtype, device, on_kernels=on_kernels)
    texts = prompts(requests, 33, SMALL["vocab_size"])
    params = SamplingParams(temperature=0.0, max_tokens=64, ignore_eos=True, logprobs=ALTERNATIVES)
    length = 33 + 64
    in_pytorch = random_llama(SMALL, dtype, device, fading=True)
    plain = run(make_engine(in_pytorch, rows=8, length=length), texts, params)
    found = []
    for name, drafter in (("ngram", "ngram"), ("draft_model", draft)):
        engine = make_engine(target, drafter, gamma=GAMMA, rows=8, length=length)
        outputs = run(engine, texts, params)
        margins = [m for a, b in zip(plain, outputs, strict=True) if (m := _margin(a, b)) is not None]
        worst = max(margins, default=0.0)
        kind = str(dtype).removeprefix("torch.")
        found.append(
            Check(
                _name(f"greedy {name} {kind}", on_kernels=on_kernels),
                worst <= NEAR_TIE[dtype],
                f"{len(margins)} of {len(texts)} outputs differ from plain decoding's"
                f"{f', at {worst:.4f} nats at most' if margins else ''}; "
                f"{1 + engine.counters.accepted / engine.counters.steps:.2f} tokens per step",
            )
        )
    return found


def _margin(plain: list[StepOutput], other: list[StepOutput]) -> float | None:
    """How much likelier plain decoding's own token was where the outputs part; infinite where the other is not among
    its best, None where they do not part.
    """
    ours = [logprob for output in plain for logprob in output.logprobs or ()]
    for expected, token in zip(ours, tokens(other), strict=True):
        if expected.token_id != token:
            top = dict(expected.top)
            return max(top.values()) - top.get(token, -math.inf)
    return None


def check_coupled(device: torch.device, requests: int, *, on_kernels: bool = False) -> Check:
    """Under coupled verification a seed gives the same sampled tokens with and without a drafter."""
    target, draft = _models(SMALL, SMALL_DRAFT, torch.float32, device, on_kernels=on_kernels)
    texts = prompts(requests, 33, SMALL["vocab_size"])
    params = SamplingParams(temperature=1.0, max_tokens=48, ignore_eos=True)
    settings: dict[str, Any] = {"rows": 8, "length": 33 + 48, "verification": "coupled"}
    plain = run(make_engine(target, **settings), texts, params)
    other = run(make_engine(target, draft, gamma=GAMMA, **settings), texts, params)
    differing = sum(tokens(a) != tokens(b) for a, b in zip(plain, other, strict=True))
    # A draw p / E can tie to the last bits as logits can: one request in hundreds.
    detail = f"{differing} of {len(texts)} sampled outputs differ by the drafter"
    return Check(_name("coupled sampling", on_kernels=on_kernels), differing <= 1, detail)


def check_lagged(device: torch.device, requests: int, *, on_kernels: bool = False) -> list[Check]:
    """Steps on the device as a whole, read one step behind, give the tokens of steps that the host leads."""
    target, draft = _models(SMALL, SMALL_DRAFT, torch.float32, device, on_kernels=on_kernels)
    texts, found = prompts(requests, 33, SMALL["vocab_size"]), []
    for name, temperature, gamma in (("plain", 0.0, 0), ("greedy", 0.0, GAMMA), ("sampled", 0.8, GAMMA)):
        params = SamplingParams(temperature=temperature, max_tokens=48, ignore_eos=True)
        settings: dict[str, Any] = {"gamma": gamma, "rows": 8, "length": 33 + 48}
        led, lagged = (
            run(make_engine(target, draft if gamma else "none", lagged=lagged, **settings), texts, params)
            for lagged in (False, True)
        )
        differing = sum(tokens(a) != tokens(b) for a, b in zip(led, lagged, strict=True))
        # Ties to the last bits, as under coupled verification.
        detail = f"{differing} of {len(texts)} outputs differ from those of steps that the host leads"
        found.append(Check(_name(f"lagged {name}", on_kernels=on_kernels), differing <= 1, detail))
    return found


def check_distribution(device: torch.device, requests: int, *, on_kernels: bool = False) -> list[Check]:
    """Second and third tokens under rejection sampling against the target's own probabilities, enumerated (G-test)."""
    shapes = MARKOV, {**MARKOV, "num_hidden_layers": 1}
    target, draft = _models(*shapes, torch.float32, device, spread=1.5, on_kernels=on_kernels)
    prompt, params = [3, 1, 4, 1, 5], SamplingParams(temperature=0.8, max_tokens=3, ignore_eos=True)
    engine = make_engine(target, draft, gamma=2, rows=64, length=16)
    drawn = torch.tensor([tokens(outputs) for outputs in run(engine, [prompt] * requests, params)])
    in_pytorch = random_llama(MARKOV, torch.float32, device, spread=1.5, fading=True)
    exact = _enumerate(in_pytorch, prompt, params.temperature)
    checks = []
    for place, name in ((1, "second"), (2, "third")):
        expected = exact.sum([axis for axis in range(3) if axis != place]).double()
        p = _g_test(torch.bincount(drawn[:, place], minlength=len(expected)).double(), expected * requests)
        detail = f"{name} tokens of {requests:,} requests against their enumerated probabilities: p = {p:.2g}"
        checks.append(Check(_name(f"distribution of the {name} token", on_kernels=on_kernels), p > LEAST_P, detail))
    return checks


def _enumerate(target: Llama, prompt: list[int], temperature: float) -> Tensor:
    """Probability of every three tokens after the prompt, [V, V, V], from one forward pass each."""
    vocab, width = target.config.vocab_size, len(prompt) + 2
    pairs = torch.cartesian_prod(torch.arange(vocab), torch.arange(vocab))
    ids = torch.cat([torch.tensor([prompt]).expand(len(pairs), -1), pairs], 1).to(target.device)
    cache = KVCache(target.config, len(pairs), width, target.dtype, target.device)
    at = torch.arange(width, device=target.device).expand(len(pairs), -1)
    with torch.inference_mode():
        logits = target.forward(ids, cache.enter(slice(0, len(pairs)), at, at, used=width), logits=3).logits
    p = (logits.double() / temperature).softmax(-1).cpu().view(vocab, vocab, 3, vocab)
    return p[0, 0, 0][:, None, None] * p[:, 0, 1][:, :, None] * p[:, :, 2]


def _g_test(counts: Tensor, expected: Tensor) -> float:
    """Likelihood-ratio test; cells that expect fewer than five are pooled. The tail is Wilson and Hilferty's (1931)."""
    rare = expected < 5
    if rare.any():
        counts, expected = (torch.cat([x[~rare], x[rare].sum()[None]]) for x in (counts, expected))
    seen = counts > 0
    g = 2 * float((counts[seen] * (counts[seen] / expected[seen]).log()).sum())
    freedom = len(counts) - 1
    z = ((max(g, 0.0) / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    return 0.5 * math.erfc(z / math.sqrt(2))


def exactness(device: torch.device, *, tiny: bool, on_kernels: bool) -> dict[str, Callable[[], Check | list[Check]]]:
    """All of the above by name, each to be called by itself: in PyTorch, or what is done otherwise on the kernels."""
    requests, draws = (6, 512) if tiny else (48, 4_096)
    checks: dict[str, Callable[[], Check | list[Check]]] = {} if on_kernels else {"noise": partial(check_noise, device)}
    checks |= {
        "greedy float32": partial(check_greedy, device, torch.float32, requests, on_kernels=on_kernels),
        "greedy bfloat16": partial(check_greedy, device, torch.bfloat16, requests, on_kernels=on_kernels),
        "coupled sampling": partial(check_coupled, device, requests, on_kernels=on_kernels),
        "lagged": partial(check_lagged, device, requests, on_kernels=on_kernels),
        "distribution": partial(check_distribution, device, draws, on_kernels=on_kernels),
    }
    return {_name(name, on_kernels=on_kernels): check for name, check in checks.items()}


def ways(device: torch.device) -> tuple[bool, ...]:
    """Whether on kernels: the ways of decoding that there are on this device."""
    return (False, True) if kernels.usable(device, torch.bfloat16) else (False,)


def _models(
    target: dict[str, Any], draft: dict[str, Any], dtype: torch.dtype, device: torch.device, **how: Any
) -> tuple[Llama, Llama]:
    def make(shape: dict[str, Any]) -> Llama:
        return random_llama(shape, dtype, device, fading=True, **how)

    return make(target), make(draft)


def _name(check: str, *, on_kernels: bool) -> str:
    return f"{check}, on kernels" if on_kernels else check
