"""A real vLLM, on CPU: a sweep over three kinds of drafter, the same on the reference decoder, the target as its own
draft with the engine killed once, and starts that must fail.

Takes minutes, most of them vLLM's own starts. Skipped where its environment is not installed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.acceptance import from_requests, relative_difference
from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import summarize
from specbench.backends.base import EngineOptions, Launch
from specbench.backends.process import LaunchFailed, run_server
from specbench.backends.vllm import VllmBackend
from specbench.equivalence.across_backends import compare_runs
from specbench.errors import SpecbenchError
from specbench.speculation import Speculation
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore
from specbench.sweep.config import SweepConfig
from specbench.sweep.plan import PlannedMeasurement
from specbench.sweep.prepare import prepare
from specbench.sweep.progress import Progress, Silent
from specbench.sweep.runner import Sweep, run_sweep

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

GAMMA = 3
KILLED = "vllm-draft_model-g3-b1-r0k0"
METHODS = ("ngram", "draft_model", "eagle3")
DRAFTERS = {"draft_model": "demo", "eagle3": "demo"}
PROMPTS = (
    {"id": "list", "messages": [{"role": "user", "content": "Write the numbers from 1 to 30, one a line."}]},
    {"id": "copy", "messages": [{"role": "user", "content": "Repeat three times: red green blue yellow."}]},
    {"id": "talk", "messages": [{"role": "user", "content": "Why is the sky blue? Explain it to a child."}]},
    {
        "id": "json",
        "messages": [{"role": "user", "content": "A JSON object with name, age and city of a cook."}],
    },
    {"id": "count", "prompt": "1 2 3 4 1 2 3 4 1 2 3", "max_tokens": 16},
)
# Not for the reference decoder, which has no grammars.
CHOICE = {
    "id": "choice",
    "messages": [{"role": "user", "content": "Which of them is a colour?"}],
    "structured_outputs": {"choice": ["chair", "magenta and nothing else"]},
}


@dataclass(frozen=True)
class Run:
    sweep: Sweep
    measurements: dict[str, Measurement]
    cells: dict[str, CellSummary]


class _Killer(Silent):
    """Kills the engine behind vLLM's HTTP server after the first request of one measurement."""

    def __init__(self) -> None:
        self.now = ""
        self.servers: dict[int, psutil.Process] = {}

    def measure(self, measurement: PlannedMeasurement, requests: int) -> None:
        self.now = measurement.id
        for process in psutil.Process().children(recursive=True):
            self.servers[process.pid] = process

    def tokens(self, requests_done: int, output_tokens: int, steps: int, accepted: int) -> None:
        if self.now == KILLED and requests_done == 1:
            [server] = [p for p in psutil.Process().children() if "vllm.entrypoints.openai.api_server" in p.cmdline()]
            for engine in server.children(recursive=True):
                engine.kill()


def measure(folder: Path, prompts: Sequence[Mapping[str, object]], progress: Progress, **settings: object) -> Run:
    folder.mkdir()
    (workload := folder / "vllm.jsonl").write_text("\n".join(map(json.dumps, prompts)))
    config = SweepConfig.model_validate(
        {
            "workload": (workload,),
            "gamma": (GAMMA,),
            "batch_size": (1, 2),
            "max_tokens": 24,
            "max_model_len": 256,
            "replicates": 1,
            **settings,
        }
    )
    sweep = prepare(config, folder / "run", resume=False, note=lambda text: None)
    asyncio.run(run_sweep(sweep, progress))
    return Run(
        sweep,
        {m.id: m for m in sweep.store.measurements()},
        {f"{c.method}-b{c.batch_size}": c for c in summarize(RunStore.open(sweep.store.path)).cells},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, vllm_python: Path) -> Run:
    """None, n-gram, the demo's draft model and its EAGLE-3 head, at batch 1 and 2."""
    return measure(
        tmp_path_factory.mktemp("run") / "vllm", PROMPTS, Silent(),
        backend="vllm", method=METHODS, drafter=DRAFTERS, kv_cache="512MiB", python=vllm_python,
    )  # fmt: skip


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same on the reference decoder."""
    folder = tmp_path_factory.mktemp("run") / "reference"
    return measure(folder, PROMPTS, Silent(), backend="reference", method=METHODS, drafter=DRAFTERS)


@pytest.fixture(scope="module")
def own_draft(
    tmp_path_factory: pytest.TempPathFactory, vllm_python: Path, demo_target: Path
) -> tuple[Run, list[psutil.Process]]:
    """The target as its own draft model, in a KV cache too small for eight requests; killed once, at batch 1."""
    killer = _Killer()
    measured = measure(
        tmp_path_factory.mktemp("run") / "own", (*PROMPTS[:3], CHOICE), killer,
        backend="vllm", method=("draft_model",), drafter={"draft_model": str(demo_target)}, kv_cache="64MiB",
        max_model_len=512, batch_size=(1, 8), max_tokens=96, python=vllm_python,
    )  # fmt: skip
    return measured, list(killer.servers.values())


def test_outputs_are_the_same_with_and_without_speculation_in_float32(run: Run) -> None:
    assert {name: cell.equivalence for name, cell in run.cells.items()} == dict.fromkeys(run.cells, "EXACT")


def test_vllm_and_the_reference_decoder_give_the_same_tokens_and_accept_the_same_drafts_step_by_step(
    run: Run, reference: Run
) -> None:
    cells = compare_runs(run.sweep.store, reference.sweep.store)
    assert len(cells) == 8
    assert {cell.cell: (cell.verdict, cell.differences[:1]) for cell in cells} == {
        cell.cell: ("AGREE", ()) for cell in cells
    }
    for cell in cells:
        assert cell.same_ids == cell.requests >= len(PROMPTS)
        if cell.speculative:
            assert cell.compared == cell.requests
            assert cell.steps >= 10
            assert cell.mean_acceptance_length_per_draft_a is not None
            assert cell.mean_acceptance_length_per_draft_a > 1.05


def test_the_target_as_its_own_draft_is_always_accepted(own_draft: tuple[Run, list[psutil.Process]]) -> None:
    # But for the prompt with a grammar, which vLLM's drafter does not know of.
    traces = own_draft[0].measurements["vllm-draft_model-g3-b8-r0k0"].traces
    pooled = from_requests([t for t in traces if t.prompt_id != "choice"], GAMMA)
    assert pooled is not None
    assert pooled.counts.mean_length_per_draft() == GAMMA + 1
    assert pooled.counts.draft_rate() == 1
    assert pooled.alpha() == 1


def test_a_kv_cache_that_overflows_is_marked_and_changes_no_output(
    own_draft: tuple[Run, list[psutil.Process]],
) -> None:
    cell = own_draft[0].cells["draft_model-b8"]
    assert cell.preemptions is not None
    assert cell.preemptions > 0
    assert "preempted" in {mark.code for mark in cell.marks}
    assert cell.equivalence == "EXACT"


def test_an_engine_that_is_killed_in_a_cell_is_one_failed_cell_and_the_rest_is_measured(
    own_draft: tuple[Run, list[psutil.Process]],
) -> None:
    measurements = own_draft[0].measurements
    assert len(measurements) == 4
    failed = [m for m in measurements.values() if m.status == "failed"]
    assert [m.id for m in failed] == [KILLED]
    assert any(words in (failed[0].error or "") for words in ("the engine died", "the server ended", "every request"))


def test_no_process_of_any_server_is_left(own_draft: tuple[Run, list[psutil.Process]]) -> None:
    servers = own_draft[1]
    assert len(servers) >= 3 * 2, "three starts, each with an engine behind its HTTP server"
    _, alive = psutil.wait_procs(servers, timeout=5)
    assert not alive


def test_grammar_in_a_workload_line_reaches_the_server(own_draft: tuple[Run, list[psutil.Process]]) -> None:
    traces = [t for m in own_draft[0].measurements.values() for t in m.traces]
    texts = {t.text for t in traces if t.prompt_id == "choice" and t.error is None}
    assert texts <= {"chair", "magenta and nothing else"}
    assert texts


@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_acceptance_from_requests_equals_the_counters(run: Run, method: str, batch_size: int) -> None:
    measurement = run.measurements[f"vllm-{method}-g3-b{batch_size}-r0k0"]
    assert measurement.counters is not None
    counters = measurement.counters.acceptance
    pooled = from_requests(measurement.traces, GAMMA)
    assert pooled is not None
    assert isinstance(counters, AcceptanceCounts)
    assert counters.accepted > 0
    assert relative_difference(pooled.counts, counters) == 0
    assert pooled.counts.by_position == counters.by_position
    assert measurement.counters.generated_tokens == sum(t.output_tokens for t in measurement.traces)


def test_no_figure_of_a_sound_cell_is_marked_as_impossible(run: Run) -> None:
    codes = {mark.code for cell in run.cells.values() for mark in cell.marks}
    assert not codes & {"counters_differ", "token_identity", "acceptance_above_gamma", "settings_differ"}


def test_the_kv_cache_is_reported(run: Run) -> None:
    for cell in run.cells.values():
        assert cell.kv_capacity_tokens is not None
        assert cell.kv_capacity_tokens > 2 * 256
        assert cell.preemptions == 0
        assert cell.prefix_cache_hit_percent is None


def test_settings_are_read_back_as_they_were_asked(run: Run) -> None:
    launches = run.sweep.store.launches()
    assert set(launches) == {"none-r0", *(f"{method}-g3-r0" for method in METHODS)}
    for launch in launches.values():
        assert launch["differences"] == []
        assert launch["version"].startswith("0.")
        assert launch["raw"]["scheduler_config"]["max_num_seqs"] == 2
        assert "hf_token" not in launch["raw"]["model_config"]


def launch(python: Path, target: Path, speculation: Speculation | None = None, **options: object) -> Launch:
    return Launch(
        target=target,
        target_name="demo",
        speculation=speculation or Speculation(),
        max_model_len=512,
        options=EngineOptions(python=python, kv_cache_bytes=512 << 20, **options),  # type: ignore[arg-type]
    )


async def sentence_of(command_of: Launch, log: Path, port: int | None = None) -> str:
    """How a start that must fail is told."""
    backend = VllmBackend()
    command = backend.command(command_of)
    if port is not None:
        command = replace(command, argv=tuple(part.replace("{port}", str(port)) for part in command.argv))
    with pytest.raises(LaunchFailed) as caught:
        async with run_server(command, log, explain=backend.explain, ready_timeout=300):
            pass
    assert caught.value.log_tail
    assert not [p for p in psutil.Process().children() if "vllm" in " ".join(p.cmdline())]
    return str(caught.value)


async def test_a_port_in_use_is_told(vllm_python: Path, demo_target: Path, log: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        told = await sentence_of(launch(vllm_python, demo_target), log, port=taken.getsockname()[1])
    assert "The port is taken by another server" in told


async def test_a_kv_cache_too_small_for_a_request_is_told(vllm_python: Path, demo_target: Path, log: Path) -> None:
    small = replace(launch(vllm_python, demo_target), max_model_len=2048)
    small = replace(small, options=replace(small.options, kv_cache_bytes=32 << 20))
    assert "The KV cache cannot hold one request" in await sentence_of(small, log)


def other_vocabulary(target: Path, folder: Path) -> Path:
    """The target with a vocabulary that is said to be larger."""
    draft = folder / "draft"
    shutil.copytree(target, draft)
    config = json.loads((draft / "config.json").read_text())
    (draft / "config.json").write_text(json.dumps({**config, "vocab_size": config["vocab_size"] + 64}))
    return draft


async def test_a_draft_model_with_another_vocabulary_is_told(
    vllm_python: Path, demo_target: Path, log: Path, tmp_path: Path
) -> None:
    draft = other_vocabulary(demo_target, tmp_path)
    told = await sentence_of(launch(vllm_python, demo_target, Speculation("draft_model", 2, str(draft))), log)
    assert "The draft model has another vocabulary than the target" in told


def test_and_a_sweep_refuses_it_before_any_start(vllm_python: Path, demo_target: Path, tmp_path: Path) -> None:
    workload = tmp_path / "w.jsonl"
    workload.write_text(json.dumps(PROMPTS[0]))
    config = SweepConfig(
        workload=(workload,),
        backend="vllm",
        method=("draft_model",),
        drafter={"draft_model": str(other_vocabulary(demo_target, tmp_path))},
        python=vllm_python,
    )
    with pytest.raises(SpecbenchError, match="Use a draft model with the target's tokenizer"):
        prepare(config, tmp_path / "run", resume=False, note=lambda text: None)
