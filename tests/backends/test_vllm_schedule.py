"""A schedule as `recommend` prints it, in a real vLLM on CPU: it follows the batch size and changes no output."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("recommend", "analysis")]

from known_grid import store  # noqa: E402

from specbench.backends.vllm import VllmBackend  # noqa: E402
from specbench.recommend.measure import MeasuredSchedule, measure, measuring_config  # noqa: E402
from specbench.recommend.recommendation import recommend  # noqa: E402
from specbench.speculation import Speculation  # noqa: E402
from specbench.store.measurement import Measurement  # noqa: E402
from specbench.sweep.prepare import prepare  # noqa: E402
from specbench.sweep.progress import Silent  # noqa: E402

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

PROMPTS = (
    {"id": "list", "prompt": "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5,"},
    {"id": "copy", "messages": [{"role": "user", "content": "Repeat three times: red green blue yellow."}]},
    {"id": "talk", "messages": [{"role": "user", "content": "Why is the sky blue? Explain it to a child."}]},
)


def drafted(m: Measurement) -> int:
    return sum(t.acceptance.drafted or 0 for t in m.traces if t.acceptance)


def test_a_real_vllm_follows_the_recommended_schedule(tmp_path: Path, vllm_python: Path) -> None:
    (workload := tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, PROMPTS)))
    run = store(
        tmp_path / "run",
        {("ngram", 3): {1: 1.6, 2: 0.7}},
        config={
            "backend": "vllm", "python": str(vllm_python), "workload": [str(workload)], "gamma": [3],
            "batch_size": [1, 2], "max_tokens": 24, "max_model_len": 256, "kv_cache": "512MiB", "replicates": 1,
        },
    )  # fmt: skip
    made = recommend(run)
    assert made.schedule == "1=3+2=0"
    assert made.paste is not None
    pasted = json.loads(shlex.split(made.paste.command)[-1])
    assert pasted["num_speculative_tokens_per_batch_size"] == [[1, 1, 3], [2, 4096, 0]]

    sweep = prepare(measuring_config(run.manifest["config"], made, None), tmp_path / "new", resume=False, note=print)
    argv = VllmBackend().command(sweep.launch(Speculation("ngram", 3, schedule=made.schedule))).argv
    started = json.loads(argv[argv.index("--speculative-config") + 1])
    assert started == {**pasted, "num_speculative_tokens_per_batch_size": [[1, 1, 3], [2, 2, 0]]}
    asyncio.run(measure(sweep, Silent()))

    result, summary, measurements = MeasuredSchedule.of(run, sweep.store, made)
    assert result.failures == 0
    assert [(c.batch_size, c.gamma) for c in result.checks] == [(1, 3), (2, 0)]
    assert {c.equivalence for c in summary.cells} == {"EXACT"}
    assert all(launch["differences"] == [] for launch in sweep.store.launches().values())
    by_arm = {(m.cell.speculation.name, m.cell.batch_size): m for m in measurements}
    # Alone, a request has all that fixed drafts have; two at once have none, but for what outlasts all others.
    assert drafted(by_arm["ngram-schedule", 1]) == drafted(by_arm["ngram", 1]) > 0
    # A request that waits for its mate, on a slow machine for long, drafts alone.
    assert drafted(by_arm["ngram-schedule", 2]) < 0.8 * drafted(by_arm["ngram", 2])
