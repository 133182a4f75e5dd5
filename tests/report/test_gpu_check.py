"""A result of gpu-check, read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specbench.errors import SpecbenchError
from specbench.report.gpu_check import gpu_check_text


def figure(what: str, value: float, unit: str, **changes: Any) -> dict[str, Any]:
    plain = {"batch_size": 1, "gamma": 0, "context": 512, "of_bandwidth": None, "synthetic": None}
    return {"what": what, "model": "Llama-3.1-8B", "value": value, "unit": unit, **plain, **changes}


RESULT: dict[str, Any] = {
    "kind": "specbench gpu-check",
    "tiny": False,
    "machine": {"device": "NVIDIA H200", "versions": {"torch": "2.13.0", "triton": None}},
    "seconds": 301.2,
    "copy_bytes_per_s": 4.1e12,
    "kernels": [],
    "checks": [
        {"name": "noise", "ok": True, "detail": "all equal"},
        {"name": "greedy ngram float32", "ok": False, "detail": "2 of 48 outputs differ, at 0.4 nats at most"},
    ],
    "figures": [
        figure("plain pass", 4.2, "ms", of_bandwidth=0.87),
        figure("plain pass", 5.1, "ms", batch_size=64, of_bandwidth=0.71),
        figure("decoding", 1234.5, "tokens/s", gamma=3, synthetic=0.8),
    ],
    "failures": [{"what": "Llama-3.1-8B, transformers", "error": "OutOfMemoryError: no room"}],
}


def test_checks_figures_and_failures_are_all_told(tmp_path: Path) -> None:
    path = tmp_path / "gpu-check.json"
    path.write_text(json.dumps(RESULT))
    text = gpu_check_text(path)
    assert text.startswith("NVIDIA H200: torch 2.13.0\ncopy bandwidth 4,100 GB/s; 301 s in all\n")
    assert "\nok    noise: all equal\nWRONG greedy ngram float32: 2 of 48" in text
    rows = {
        line[:58].strip(): line[58:].split("  ") for line in text.splitlines() if ", ms" in line or "tokens/s" in line
    }
    assert [cell.strip() for cell in rows["plain pass, ms"] if cell] == ["4.2 (87%)", "5.1 (71%)"]
    assert "decoding, gamma 3, synthetic acceptance 0.8, tokens/s" in rows
    assert text.endswith("FAILED Llama-3.1-8B, transformers: OutOfMemoryError: no room")
    assert "TINY" not in text


@pytest.mark.parametrize("content", ["{}", "[]", '{"kind": "run"}', "not JSON"])
def test_another_file_is_refused_in_a_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(SpecbenchError, match=r"A run is a directory\.$"):
        gpu_check_text(path)
