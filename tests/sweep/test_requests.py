"""Which requests a measurement sends."""

from __future__ import annotations

from pathlib import Path

from specbench.sweep.config import SweepConfig
from specbench.sweep.requests import request_order
from specbench.workloads.load import load_workload


def test_a_lines_own_fields_reach_the_body_and_win_over_the_runs(tmp_path: Path) -> None:
    path = tmp_path / "tools.jsonl"
    path.write_text(
        '{"id": "a", "prompt": "Red or blue?", "structured_outputs": {"choice": ["red", "blue"]}, "stop": ["."]}\n'
        '{"id": "b", "prompt": "Think.", "chat_template_kwargs": {"enable_thinking": true}}\n'
    )
    config = SweepConfig(workload=(path,), chat_template_kwargs={"enable_thinking": False, "style": "short"})
    bodies = {r.prompt_id: r.body("m") for r in request_order(load_workload(path), config, batch_size=1)}
    assert bodies["a"]["structured_outputs"] == {"choice": ["red", "blue"]}
    assert bodies["a"]["stop"] == ["."]
    assert bodies["a"]["chat_template_kwargs"] == {"enable_thinking": False, "style": "short"}
    assert bodies["b"]["chat_template_kwargs"] == {"enable_thinking": True, "style": "short"}
    assert "structured_outputs" not in bodies["b"]


def test_without_such_fields_none_are_sent(tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    path.write_text('{"prompt": "Hello"}\n')
    [spec, *_] = request_order(load_workload(path), SweepConfig(workload=(path,)), batch_size=1)
    assert spec.extra == {}
