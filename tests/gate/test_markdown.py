"""Markdown for a job's summary: the verdict first, every comparison in a table, nothing from outside as markup."""

from __future__ import annotations

import re

from known_gate import CALM, key, speedups

from specbench.gate.judge import judge
from specbench.gate.markdown import render_markdown
from specbench.gate.result import Finding, GateResult
from specbench.gate.rules import Rules

GITHUB_LIMIT = 1024 * 1024


def test_the_verdict_leads_and_the_failed_cell_is_told_in_a_sentence() -> None:
    text = render_markdown(judge(speedups(CALM, CALM), speedups(CALM, [x - 0.2 for x in CALM], run="b"), Rules()))
    assert text.startswith("## Gate: FAIL\n")
    assert "Of 2 comparisons 1 failed, 0 undecided" in text
    assert re.search(
        r"- \*\*chat, ngram γ4, batch size 2\*\*: speedup 1.5 → 1.228, -18.1% .* worse by more than 3%", text
    )
    rows = [line for line in text.splitlines() if line.startswith("| chat")]
    assert len(rows) == 2
    assert "❌ regression" in rows[0]
    assert {row.count(" | ") for row in rows} == {5}


def test_a_simulated_gate_says_so_first() -> None:
    sides = [speedups(CALM, run=run, simulated=True) for run in "ab"]
    assert render_markdown(judge(*sides, Rules())).startswith("## SIMULATED: Gate: PASS")


def test_text_from_outside_is_no_markup_and_a_long_gate_fits_a_summary() -> None:
    finding = Finding(key()._replace(workload="a|b<script>`"), "speedup", "no evidence", "line\nbreak | <b>")
    gated = GateResult("a", "b", False, 0.03, 0.95, False, (finding,) * 500, (), ("engine: <i> → x",), ())
    text = render_markdown(gated)
    assert "<script>" not in text
    assert "<b>" not in text
    assert "<i>" not in text
    assert all(line.count(" | ") == 5 for line in text.splitlines() if line.startswith("| a"))
    assert len(text.encode()) < GITHUB_LIMIT
    assert "300 more" in text
