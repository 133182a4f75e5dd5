"""Whole verifications on real servers of the reference decoder; one of them has a bug planted."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from specbench.backends.base import Command, Launch
from specbench.backends.reference import ReferenceBackend
from specbench.errors import SpecbenchError
from specbench.replay.request import RequestSpec
from specbench.speculation import BASELINE
from specbench.sweep.config import SweepConfig
from specbench.verification.flow import RESULT, TEXT, run_verification, write
from specbench.verification.server import start
from specbench.verification.settings import DEFAULTS, Effort, Subject, prepare
from specbench.verification.text import lines

SERVER = Path(__file__).parents[1] / "decoder" / "planted_server.py"


class PlantedBackend(ReferenceBackend):
    """The reference decoder whose speculative arms have a bug; its plain arm has none."""

    def __init__(self, bug: str) -> None:
        self.bug = bug

    def command(self, launch: Launch) -> Command:
        command = super().command(launch)
        if launch.speculation.is_plain:
            return command
        return replace(command, argv=(sys.executable, str(SERVER), self.bug, *command.argv[3:]))


def subject(target: Path, draft: Path, output: Path, effort: Effort) -> Subject:
    config = SweepConfig.model_validate(
        {
            **DEFAULTS,
            "target": str(target),
            "method": ("draft_model",),
            "drafter": {"draft_model": str(draft)},
            "gamma": (1,),
            "prompts": 16,
            "max_tokens": 16,
            "max_model_len": 256,
            "threads": 1,
        }
    )
    return prepare(config, effort, output, note=lambda text: None)


async def test_a_bias_that_greedy_decoding_hides_is_found_by_sampling(
    open_target: Path, noisy_draft: Path, tmp_path: Path
) -> None:
    made = subject(open_target, noisy_draft, tmp_path / "out", Effort(draws=80, contexts=3, positions=200))
    planted = replace(made, backend=PlantedBackend("always accept"))
    found = await run_verification(planted, note=lambda text: None)
    assert found.outcome == "NOT EQUIVALENT"
    assert found.greedy.arms["draft_model-g1"].verdict == "EXACT"
    assert found.greedy.floor.differing == 0
    assert found.sampling is not None
    assert found.sampling.outcome == "NOT EQUIVALENT"
    assert found.acceptance["draft_model-g1"] == 1.0
    assert found.control is not None
    assert (found.control.p or 0) > 1e-4
    assert found.seeds is not None
    assert found.seeds["draft_model-g1"].rerun == found.seeds["draft_model-g1"].requests
    write(planted.directory, found.to_json(), lines(found))
    stored = json.loads((tmp_path / "out" / RESULT).read_text())
    assert stored["verdict"] == "NOT EQUIVALENT"
    assert stored["settings"]["draws"] == 80
    text = (tmp_path / "out" / TEXT).read_text()
    assert text.startswith("NOT EQUIVALENT: draft_model-g1 against none on specbench reference decoder")
    assert "would have found a bias of TV ≥" in text


async def test_a_server_that_is_killed_is_named_with_its_log(
    open_target: Path, noisy_draft: Path, tmp_path: Path
) -> None:
    made = subject(open_target, noisy_draft, tmp_path / "out", Effort(draws=5, contexts=1, positions=5))

    async def verify_while_it_dies() -> None:
        async with start(made, BASELINE, lambda text: None) as server:
            max(psutil.Process().children(), key=psutil.Process.create_time).kill()
            await server.replay([RequestSpec(0, "p", 4, prompt=(1, 2))])

    with pytest.raises(SpecbenchError, match=r"the server ended with exit code -9 .*; its log: .*none\.log\."):
        await verify_while_it_dies()
