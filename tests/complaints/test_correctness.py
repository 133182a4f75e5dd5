"""Complaints of users of other tools, of outputs that changed: every test names its thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from planted import VERIFIERS

from specbench.decoder import noise
from specbench.decoder.sampling import SamplingParams, Warp, draw, warp
from specbench.decoder.verify import Verified, rejection
from specbench.equivalence.greedy import Margins, noise_floor
from specbench.equivalence.greedy import judge as judge_greedy
from specbench.equivalence.sampling.frequencies import one_sample
from specbench.equivalence.sampling.power import detectable_tv
from specbench.equivalence.sampling.strata import Stratum, pool
from specbench.replay.records import RequestTrace


class TestCorrectness:
    """Are outputs unchanged? Greedy differences are told from rounding, and sampled ones from chance."""

    def test_vllm_41758_a_changed_greedy_output_is_found_by_its_token_ids(self) -> None:
        """Text hides it: other ids can spell the same letters, and an output that ends early is a prefix."""
        baseline = [replace(answer(0, (5, 6, 7, 8)), text="abcd"), replace(answer(1, (5, 6)), text="ab")]
        outputs = [replace(answer(0, (5, 9, 8)), text="abcd"), replace(answer(1, (5,)), text="ab")]
        found = judge_greedy("cell", baseline, [outputs], Margins(), seeded=True)
        assert found.verdict == "DIVERGENT"
        assert [(d.index, d.position, d.baseline_token, d.token) for d in found.divergent] == [
            (0, 1, 6, 9),
            (1, 1, 6, None),
        ]

    @pytest.mark.parametrize(("margin", "verdict"), [(0.02, "NEAR_TIE"), (1.5, "DIVERGENT"), (None, "DIVERGENT")])
    def test_vllm_7627_rounding_at_a_tie_is_told_from_a_bug(self, margin: float | None, verdict: str) -> None:
        margins = Margins(epsilon=0.125, by_divergence={("cell", "p0", 1, 9): margin})
        found = judge_greedy("cell", [answer(0, (5, 6))], [[answer(0, (5, 9))]], margins, seeded=True)
        assert found.verdict == verdict

    def test_transformers_39421_the_baseline_is_held_against_itself_first(self) -> None:
        """Whether a greedy output differs by numerics: the plain engine's own differences are the floor."""
        alone = [answer(i, (5, 6, 7)) for i in range(8)]
        together = [answer(i, (5, 6, 7) if i else (5, 6, 8)) for i in range(8)]
        floor = noise_floor([alone, together])
        assert (floor.compared, floor.differing, floor.rate) == (8, 1, 1 / 8)

    def test_vllm_54282_a_residual_drawn_with_the_drafts_noise_is_biased_and_found(self) -> None:
        """The fix's own example: a target of 10, 60 and 30 % came out up to three points off."""
        p = torch.tensor([0.10, 0.60, 0.30])
        q = torch.tensor([0.85, 0.05, 0.10])
        counts = {}
        for name, verifier in (("correct", rejection), ("reused", VERIFIERS["residual reuses the draft's noise"])):
            counts[name] = first_tokens(verifier, p, q, q, rows=20_000)
        found = {name: one_sample(name, [Stratum(c, p.double().numpy())], 1e-4) for name, c in counts.items()}
        assert (found["correct"].p or 0) > 1e-4
        assert (found["reused"].p or 1) < 1e-9
        assert found["reused"].effect is not None
        assert found["reused"].effect.low > 0.005

    def test_transformers_47932_a_draft_verified_by_probabilities_it_was_not_drawn_from_is_found(self) -> None:
        """The draft is drawn after top-k, the ratio takes its raw probabilities: total variation up to 0.31."""
        generator = torch.Generator().manual_seed(0)
        common = torch.randn(500, generator=generator)
        logits = common + 0.3 * torch.randn(2, 1, 500, generator=generator)
        p, q = warp(logits, Warp.stack([SamplingParams(top_k=20)] * 2))[:, 0]
        raw = logits[1, 0].softmax(-1)
        kept = torch.minimum(torch.ones(()), p / raw)
        residual = (p - raw).clamp_min(0)
        emitted = q * kept + (1 - (q * kept).sum()) * residual / residual.sum()
        tv = float((emitted - p).abs().sum() / 2)
        assert 0.1 < tv < 0.31
        n = next(n for n in range(1, 10_000) if detectable_tv(n, 19, 1e-4) <= tv)
        possible = (p > 0).numpy()
        cells = p.double().numpy()[possible]
        p_values = {}
        for name, said in (("as drawn", q), ("raw", raw)):
            counts = first_tokens(rejection, p, q, said, rows=n)[possible]
            p_values[name] = one_sample(name, [pool(counts, cells / cells.sum())], 1e-4).p or 0
        assert p_values["as drawn"] > 1e-4
        assert p_values["raw"] < 1e-4


def answer(index: int, token_ids: tuple[int, ...]) -> RequestTrace:
    fields: dict[str, Any] = dict.fromkeys(RequestTrace.__dataclass_fields__)
    fields |= {"index": index, "prompt_id": f"p{index}", "token_ids": token_ids, "output_tokens": len(token_ids)}
    return RequestTrace(**fields)


def first_tokens(
    verifier: Callable[..., Verified], p: torch.Tensor, q: torch.Tensor, said: torch.Tensor, rows: int
) -> np.ndarray:
    """[V] counts of the first token of a step whose draft is drawn from q and verified as if from `said`."""
    seeds, positions = torch.arange(rows), torch.arange(2).expand(rows, 2)
    draft = draw(q, noise.exponential(seeds, positions[:, :1], noise.DRAFT, len(p))[:, 0])[:, None]
    verified = verifier(p.expand(rows, 2, -1), said.expand(rows, 1, -1), draft, seeds, positions)
    tokens = draft[:, 0].where(verified.accepted > 0, verified.next_token)
    return np.bincount(tokens.numpy(), minlength=len(p)).astype(float)
