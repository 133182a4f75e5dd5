"""How long passes take, against the formula."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from specbench.simulated.pace import Pace
from specbench.simulated.scenario import Drafting, Prefill, StepTime


def pace(drafting: dict[str, Any] | None = None, seed: int = 0, **step: Any) -> Pace:
    return Pace(
        StepTime.model_validate(step),
        Prefill(fixed_ms=4, per_1k_tokens_ms=30),
        Drafting.model_validate(drafting or {}),
        random.Random(seed),
    )


def test_a_step_is_draft_roofline_and_overhead() -> None:
    made = pace(
        drafting={"fixed_ms": 0.5, "per_token_ms": 1},
        fixed_ms=2,
        weights_ms=6,
        context_ms_per_1k_tokens=0.5,
        compute_ms_per_token=0.4,
        overlap=2,
        per_sequence_ms=0.1,
    )
    # 5 sequences, 4 tokens each: 8 ms of arithmetic beside 6 + .5·4 = 8 ms of memory; drafts .5 + 3·1.
    assert made.step(5, 4_000, gamma=3) == pytest.approx((3.5 + 2 + (8**2 + 8**2) ** 0.5 + 0.5) / 1000)


def test_plain_decoding_pays_for_no_draft() -> None:
    assert pace(drafting={"fixed_ms": 5, "per_token_ms": 5}, weights_ms=7).step(1, 0, gamma=0) == pytest.approx(0.007)


def test_a_prefill_grows_with_its_tokens() -> None:
    assert pace().prefill(500) == pytest.approx((4 + 15) / 1000)


def test_noise_is_log_normal_per_pass_and_per_launch() -> None:
    one = pace(weights_ms=10, noise=0.05)
    passes = np.log([one.step(1, 0, gamma=0) / 0.01 for _ in range(4_000)])
    assert np.std(passes) == pytest.approx(0.05, rel=0.1)
    launches = np.log([pace(weights_ms=10, launch_noise=0.05, seed=s).step(1, 0, gamma=0) / 0.01 for s in range(2_000)])
    assert np.std(launches) == pytest.approx(0.05, rel=0.1)
