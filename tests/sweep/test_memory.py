"""Suffix decoding that remembers is measured on servers of its own, which get no prompt twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.summary import summarize
from specbench.backends import get_backend
from specbench.backends.base import EngineOptions
from specbench.errors import SpecbenchError
from specbench.recommend.evidence import reason_against
from specbench.sweep.config import SweepConfig
from specbench.sweep.config_file import load_config
from specbench.sweep.launch import check_options, make_launch
from specbench.sweep.plan import make_plan
from specbench.sweep.prepare import prepare
from specbench.sweep.progress import Silent
from specbench.sweep.requests import memory_requests, request_order, warm_up_requests
from specbench.sweep.runner import run_sweep
from specbench.workloads.prompt import Prompt, Workload


def config(**changes: Any) -> SweepConfig:
    wanted = {"workload": ["chat.jsonl"], "method": ["suffix"], "suffix_cached_requests": [0, 8]}
    return load_config(None, {**wanted, **changes})


def workload(prompts: int) -> Workload:
    return Workload(
        name="chat",
        path=Path("chat.jsonl"),
        sha256="",
        prompts=tuple(Prompt(id=f"p{i}", prompt=f"Question number {i}?") for i in range(prompts)),
    )


def test_with_and_without_a_memory_are_arms_side_by_side() -> None:
    arms = config(method=["ngram", "suffix"]).speculations()
    assert [(arm.name, arm.label) for arm in arms] == [
        ("none", "none"),
        ("ngram", "ngram-g4"),
        ("suffix", "suffix-g4"),
        ("suffix-warm-8", "suffix-g4-warm-8"),
    ]


def test_a_server_that_remembers_is_there_for_one_measurement() -> None:
    plan = make_plan(config(batch_size=[1, 2], repeats=2, replicates=1))
    assert [(launch.id, len(launch.measurements)) for launch in plan.launches] == [
        ("none-r0", 4),
        ("suffix-g4-r0", 4),
        *((f"chat-suffix-g4-warm-8-b{size}-r0k{repeat}", 1) for size in (1, 2) for repeat in (0, 1)),
    ]


def test_the_reference_decoder_is_told_and_nobody_else_asked() -> None:
    wanted = config()
    *others, warm = (
        get_backend("reference").command(make_launch(wanted, arm, Path("t"), {}, EngineOptions())).argv
        for arm in wanted.speculations()
    )
    assert all("--suffix-cached-requests" not in argv for argv in others)
    assert warm[warm.index("--suffix-cached-requests") + 1] == "8"


@given(
    prompts=st.integers(1, 40),
    remembered=st.integers(1, 40),
    batch_size=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_no_prompt_is_measured_twice_or_after_it_was_sent_for_another_reason(
    prompts: int, remembered: int, batch_size: int, seed: int
) -> None:
    changes = {"prompts": prompts, "suffix_cached_requests": [remembered], "seed": seed, "batch_size": [batch_size]}
    wanted, known = config(**changes), workload(40)
    try:
        measured = request_order(known, wanted, batch_size)
        before = memory_requests(known, wanted, remembered)
    except SpecbenchError:
        assert prompts + remembered > 40 or 4 * batch_size > prompts
        return
    ids = [request.prompt_id for request in (*measured, *before)]
    assert len(set(ids)) == len(ids) == prompts + remembered
    for cohort in range(6):
        warm_up = {request.prompt_id for request in warm_up_requests(known, wanted, batch_size, cohort)}
        assert warm_up.isdisjoint(request.prompt_id for request in measured)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"method": ["ngram"]}, "--suffix-cached-requests is for method suffix"),
        ({"suffix_cached_requests": [-1]}, "--suffix-cached-requests: .*greater than or equal to 0"),
        ({"until_confident": True}, "a memory of earlier responses is not modelled"),
    ],
)
def test_a_memory_that_cannot_be_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        config(**changes)


@pytest.mark.parametrize("backend", ["sglang", "simulated", "tensorrt-llm"])
def test_engines_whose_memory_has_no_size_refuse_and_point_to_the_profile(backend: str) -> None:
    with pytest.raises(SpecbenchError, match=f"the {backend} backend cannot be told .* specbench profile"):
        check_options(config(backend=backend), get_backend(backend))


def test_too_few_prompts_are_told_in_a_sentence() -> None:
    with pytest.raises(SpecbenchError, match=r"8 responses are to be remembered .* of 10 prompts 4 are not"):
        memory_requests(workload(10), config(prompts=6), 8)
    with pytest.raises(SpecbenchError, match="gets each prompt once, and 16 requests are needed of 6"):
        request_order(workload(20), config(prompts=6), 4)


async def test_repeats_and_replicates_draft_alike_so_none_has_seen_the_answers_of_another(
    tiny_target: Path, tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps({"id": f"p{i}", "prompt": f"{i}: tell me more"}) + "\n" for i in range(12)))
    settings = {"workload": [path], "target": str(tiny_target), "prompts": 4, "batch_size": [1], "max_model_len": 128}
    shape = {"max_tokens": 48, "repeats": 2, "replicates": 2, "threads": 1}
    prepared = prepare(config(**settings, **shape), tmp_path / "run", resume=False, note=lambda text: None)
    await run_sweep(prepared, Silent())
    accepted: dict[str, set[tuple[int, ...]]] = {}
    for m in prepared.store.measurements():
        assert m.status == "ok", m.error
        kept = tuple(t.acceptance.accepted for t in m.traces if t.acceptance)
        accepted.setdefault(m.cell.speculation.label, set()).add(kept)
    assert {arm: len(kept) for arm, kept in accepted.items() if arm != "none"} == {
        "suffix-g4": 1,
        "suffix-g4-warm-8": 1,
    }
    assert accepted["suffix-g4"] != accepted["suffix-g4-warm-8"], "it drafts from the other prompts' responses"
    cold, warm = (c for c in summarize(prepared.store).cells if c.is_speculative)
    assert (cold.method, cold.cached_requests, warm.method, warm.cached_requests) == (
        "suffix",
        None,
        "suffix-warm-8",
        8,
    )
    assert warm.equivalence == "EXACT"
    assert "remembers none" in (reason_against(warm) or "")
