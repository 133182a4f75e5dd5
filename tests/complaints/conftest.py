"""Makes `known_sweep`, `known_run` and the decoder's planted bugs importable; and the sweep itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from specbench.analysis.summary import RunSummary, summarize
from specbench.sweep.config import SweepConfig
from specbench.sweep.prepare import prepare
from specbench.sweep.progress import Silent
from specbench.sweep.runner import run_sweep

sys.path += [str(Path(__file__).parent), *(str(Path(__file__).parents[1] / name) for name in ("analysis", "decoder"))]
from known_sweep import Sweep

PREFACE = "Answer in one sentence, say what you do not know, and name a source for what you do know. "


@pytest.fixture
def simulated_sweep(tmp_path: Path) -> Sweep:
    """A sweep on the known-truth server, baseline and EAGLE-3 with gamma 4: `await simulated_sweep({…scenario…})`."""
    lines = [json.dumps({"id": f"p{i}", "prompt": f"{PREFACE}Question number {i}?"}) for i in range(12)]
    (tmp_path / "chat.jsonl").write_text("\n".join(lines))

    async def run(scenario: dict[str, Any], **config: Any) -> RunSummary:
        (tmp_path / "scenario.yaml").write_text(yaml.safe_dump({"step": {"weights_ms": 4}, **scenario}))
        settings = {
            "workload": [tmp_path / "chat.jsonl"],
            "backend": "simulated",
            "scenario": tmp_path / "scenario.yaml",
            "target": "any/model",
            "method": ["eagle3"],
            "drafter": {"eagle3": "any/head"},
            "batch_size": [2],
            "max_tokens": 40,
            "replicates": 1,
        }
        sweep = prepare(
            SweepConfig.model_validate({**settings, **config}), tmp_path / "run", resume=False, note=lambda text: None
        )
        await run_sweep(sweep, Silent())
        return summarize(sweep.store)

    return run
