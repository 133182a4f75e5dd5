"""The script for machines with a GPU runs to its end without one, and its checks can fail."""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from specbench.decoder import noise, verify
from specbench.decoder.gpu_check import __main__, exactness, kernels
from specbench.decoder.gpu_check.__main__ import _Run
from specbench.decoder.gpu_check.exactness import Check, _margin, check_distribution, check_greedy, check_noise
from specbench.decoder.gpu_check.figures import Figure
from specbench.decoder.gpu_check.models import LLAMA_1B, LLAMA_8B, TINY_PAIRS, Pair, RandomWeights
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import Logprob, StepOutput
from specbench.decoder.verify import Verified

CPU = torch.device("cpu")

KERNELS = {f"kernel {name}": True for name in kernels.CHECKS} if find_spec("triton") else {"kernels": None}


def script(*options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specbench.decoder.gpu_check", *map(str, options)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the whole script writes with `--device cpu --tiny`."""
    path = tmp_path_factory.mktemp("gpu-check") / "result.json"
    run = script("--device", "cpu", "--tiny", "--output", path)
    assert run.returncode == 0, run.stdout + run.stderr
    return path


def test_every_check_holds_and_every_figure_has_its_unit(result: Path) -> None:
    found = json.loads(result.read_text())
    assert found["failures"] == []
    assert found["complete"]
    assert {check["name"]: check["ok"] for check in found["checks"]} == {
        "noise": True,
        "greedy ngram float32": True,
        "greedy draft_model float32": True,
        "greedy ngram bfloat16": True,
        "greedy draft_model bfloat16": True,
        "coupled sampling": True,
        "lagged plain": True,
        "lagged greedy": True,
        "lagged sampled": True,
        "distribution of the second token": True,
        "distribution of the third token": True,
        **KERNELS,
    }
    assert found["copy_bytes_per_s"] > 0
    assert all(figure["value"] > 0 and figure["unit"] in ("ms", "tokens/s") for figure in found["figures"])
    assert found["machine"]["versions"]["torch"] == torch.__version__


def test_every_part_is_timed_over_batch_sizes_and_gammas(result: Path) -> None:
    figures = json.loads(result.read_text())["figures"]
    measured = {name: {(f["batch_size"], f["gamma"]) for f in figures if f["what"] == name} for name in _names(figures)}
    speculative = {(b, g) for b in (1, 2) for g in (1, 3)}
    plain = {(1, 0), (2, 0)}
    assert measured.pop("transformers generate", set()) <= plain  # no figure where the machine was too busy for one
    assert measured == {
        "plain pass": plain,
        "verify pass": speculative,
        "accept, greedy": speculative,
        "accept, rejection": speculative,
        "draft loop": speculative,
        "decoding": plain | speculative,
        "decoding, lagged": plain | speculative,
    }


def test_where_kernels_run_all_is_checked_and_measured_without_them_and_on_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []

    def checked(*arguments: Any, on_kernels: bool) -> list[Check]:
        asked.append(on_kernels)
        return []

    monkeypatch.setattr(exactness.kernels, "usable", lambda device, dtype: True)
    for name in ("check_greedy", "check_coupled", "check_lagged", "check_distribution"):
        monkeypatch.setattr(exactness, name, checked)
    monkeypatch.setattr(__main__, "kernel_checks", lambda device: {})
    monkeypatch.setattr(__main__, "kernel_times", lambda *arguments: [])
    models: list[tuple[str, bool]] = []

    def passed(pair: Pair, target: Llama, scale: Any) -> list[Figure]:
        models.append((pair.target, target.on_kernels))
        asked.append(target.on_kernels)
        return []

    monkeypatch.setattr(__main__, "passes", passed)
    for name in ("accepts", "drafts", "decoding", "generate"):
        monkeypatch.setattr(__main__, name, lambda *arguments: [])
    monkeypatch.setattr(__main__, "TINY_PAIRS", (*TINY_PAIRS, replace(TINY_PAIRS[0], target="other")))
    found = __main__.gpu_check(CPU, tiny=True, minutes=5.0)
    assert found["failures"] == []
    assert models == [(f"{model}{how}", bool(how)) for how in ("", ", on kernels") for model in ("tiny", "other")]
    assert asked == sorted(asked)  # whatever a kernel does to the device, what PyTorch does is done
    assert Counter(asked) == {False: 7, True: 7}


def test_speculation_at_a_made_up_rate_says_so(result: Path) -> None:
    figures = [f for f in json.loads(result.read_text())["figures"] if f["what"] == "decoding"]
    assert {f["gamma"] > 0: f["synthetic"] for f in figures} == {False: None, True: 0.8}
    shown = script("--show", result)
    assert shown.returncode == 0
    assert "synthetic acceptance 0.8" in shown.stdout
    assert "Its times mean nothing" in shown.stdout


def _names(figures: list[dict[str, Any]]) -> set[str]:
    return {figure["what"] for figure in figures}


def test_it_needs_nothing_but_torch_transformers_and_numpy() -> None:
    code = (
        "import sys, specbench.decoder.gpu_check.__main__\n"
        "print(sorted({'typer', 'pydantic', 'aiohttp', 'psutil', 'pandas', 'scipy', 'pyarrow'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ("cuda", f"PyTorch {torch.__version__} sees no device cuda here. Choose another, or cpu."),
        ("gpu", "unknown device 'gpu'. Choose from: cpu, cuda, or cuda:1 and so on."),
    ],
)
def test_without_such_a_device_it_says_what_can_be_done(
    monkeypatch: pytest.MonkeyPatch, device: str, sentence: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    run = script("--device", device)
    assert run.returncode == 1
    assert run.stderr == f"gpu-check: {sentence} To see that the script runs: --device cpu --tiny\n"


def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    run = script("--device", "cpu", "--tiny", "--output", tmp_path / "nowhere" / "result.json")
    assert run.returncode == 1
    assert run.stderr.endswith("result.json cannot be written (No such file or directory). Choose another --output.\n")
    assert "Traceback" not in run.stderr


def test_a_sampler_that_accepts_everything_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = verify.rejection

    def accepts_everything(*arguments: Any) -> Verified:
        p, q, draft, seeds, positions, _ = arguments
        return honest(p, q, draft, seeds, positions, (draft >= 0).sum(1))

    monkeypatch.setattr(verify, "rejection", accepts_everything)
    assert False in {check.ok for check in check_distribution(CPU, 512)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_wrong_token_is_no_near_tie(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    honest = verify.greedy

    def keeps_one_more(target: torch.Tensor, draft: torch.Tensor, imposed: torch.Tensor | None = None) -> Verified:
        verified = honest(target, draft)
        more = (verified.accepted + 1).clamp_max((draft >= 0).sum(1))
        return honest(target, draft, more)

    monkeypatch.setattr(verify, "greedy", keeps_one_more)
    by_method = {check.name: check.ok for check in check_greedy(CPU, dtype, 2)}
    assert by_method[f"greedy draft_model {str(dtype).removeprefix('torch.')}"] is False


@pytest.mark.parametrize(("other", "margin"), [(7, None), (8, 0.125), (9, 0.5), (500, math.inf)])
def test_how_near_to_a_tie_a_token_was_is_told_of_that_token(other: int, margin: float | None) -> None:
    """Two tokens are all but alike, and the output parts to another: that is no near tie."""
    top = ((7, -1.0), (8, -1.125), (9, -1.5))
    plain = StepOutput("r", (3, 7), (Logprob(3, -0.5, ((3, -0.5),)), Logprob(7, -1.0, top)))
    assert _margin([plain], [StepOutput("r", (3, other))]) == margin


def test_random_numbers_of_another_device_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "uniform", lambda seeds, positions, stream: torch.rand(positions.shape))
    assert check_noise(CPU).ok is False


def test_a_kernel_that_differs_from_its_twin_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # so that it is not set for longer than here
    pytest.importorskip("triton")
    from specbench.decoder.gpu_check import cases

    ones = torch.ones(3)
    for close, ok in ((1e-6, True), (1e-3, False), (math.nan, False)):
        case = cases.Case(lambda close=close: (ones + close,), lambda: (ones,), moved=0)
        monkeypatch.setattr(cases, "silu_case", lambda shape, device, case=case: case)
        assert kernels.kernel_checks(CPU)["kernel silu and product"]().ok is ok


def test_a_kernel_is_timed_in_a_graph_and_its_twin_as_the_host_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    pytest.importorskip("triton")
    from specbench.decoder.gpu_check import cases

    done: list[str] = []

    def capture(work: Callable[[], None]) -> tuple[Callable[[], None], None]:
        work()
        captured.append([*done])
        return lambda: done.append("replay"), None

    def case(shape: object, device: object) -> cases.Case:
        return cases.Case(lambda: done.append("kernel") or (), lambda: done.append("twin") or (), moved=1)

    captured: list[list[str]] = []
    monkeypatch.setattr(cases, "silu_case", case)
    monkeypatch.setattr(kernels, "CHECKS", {"silu": kernels.CHECKS["silu and product"]})
    monkeypatch.setattr(kernels, "capture", capture)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    figures = [*kernels.kernel_times(torch.device("cuda", 0), 1.0, repeats=2)]
    assert captured == [["kernel"] * 20]
    assert [*dict.fromkeys(done[20:])] == ["replay", "twin"]  # and no kernel by itself
    assert [figure.what for figure in figures] == ["kernel in a graph, silu", "twin, silu"]


def test_kernels_are_named_as_skipped_where_triton_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)
    [check] = [check() for check in kernels.kernel_checks(CPU).values()]
    assert check.ok is None
    assert all(name in check.detail for name in kernels.CHECKS)


def test_what_fails_is_told_and_the_rest_goes_on() -> None:
    run = _Run(seconds=math.inf)

    def broken() -> Check:
        raise RuntimeError("no such instruction")

    run.check_all({"broken": broken, "whole": lambda: Check("whole", True, "")})
    assert [check.name for check in run.checks] == ["whole"]
    assert run.failures == [{"what": "broken", "error": "RuntimeError: no such instruction"}]


def test_what_comes_after_the_time_is_not_begun() -> None:
    run, begun = _Run(seconds=math.inf), []

    def figures() -> Iterator[Figure]:
        for name in ("plain pass", "verify pass"):
            begun.append(name)
            run._seconds = 0.0
            yield Figure(name, "tiny", 1.0, "ms")

    run.measure("passes", figures)
    run.measure("the same again", figures)
    run.check_all({"noise": lambda: Check("noise", True, "")})
    assert begun == [figure.what for figure in run.figures] == ["plain pass"]
    late = "TimeoutError: the time is up (--minutes)"
    assert run.failures == [{"what": what, "error": late} for what in ("passes", "the same again", "noise")]
    assert run.checks == []


def test_a_script_that_is_killed_leaves_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed in the middle of a measurement."""
    done = {"noise": lambda: Check("noise", True, "")}
    monkeypatch.setattr(__main__, "exactness", lambda *arguments, **settings: done)

    def killed(pair: Pair, target: Llama, scale: Any) -> Iterator[Figure]:
        yield Figure("plain pass", pair.target, 1.0, "ms")
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "passes", killed)
    with pytest.raises(KeyboardInterrupt):
        __main__.gpu_check(CPU, tiny=True, minutes=5.0, output=tmp_path / "result.json")
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    found = json.loads((tmp_path / "result.json").read_text())
    assert [check["name"] for check in found["checks"]] == ["noise"]
    assert [figure["what"] for figure in found["figures"]] == ["plain pass"]
    shown = script("--show", tmp_path / "result.json")
    assert shown.returncode == 5
    assert "\nINCOMPLETE: " in shown.stdout


def test_a_measurement_frees_what_it_held_in_a_cycle() -> None:
    class Model:
        def __init__(self) -> None:
            self.itself = self

    models: list[weakref.ref[Model]] = []
    gc.disable()
    try:
        run = _Run(seconds=math.inf)
        run.measure("a model", lambda: models.append(weakref.ref(Model())) or [])
        assert [model() for model in models] == [None]
    finally:
        gc.enable()


@pytest.mark.parametrize(("shape", "billions"), [(LLAMA_1B, 1.236), (LLAMA_8B, 8.03)], ids=["1B", "8B"])
def test_shapes_have_the_parameters_of_the_models_that_they_are_called_after(
    shape: dict[str, Any], billions: float
) -> None:
    weights = RandomWeights(shape, torch.bfloat16, CPU, 1.0, False)
    layer = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
    layer += ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm")
    once = ["model.embed_tokens", "model.norm", *([] if shape["tie_word_embeddings"] else ["lm_head"])]
    names = [*once, *(f"model.layers.0.{part}" for part in layer)]
    sizes = {name: math.prod(weights.size(f"{name}.weight")) for name in names}
    count = sum(size * (shape["num_hidden_layers"] if "layers" in name else 1) for name, size in sizes.items())
    assert count / 1e9 == pytest.approx(billions, rel=2e-3)
