"""What a run with made-up or typical acceptance shows: so its first line says, every arm's name, and no verdict."""

from __future__ import annotations

from pathlib import Path

from known_run import measurement, store

from specbench.analysis.summary import summarize
from specbench.report.markdown import render_markdown
from specbench.speculation import Speculation

ARM = Speculation("ngram", 4, synthetic="0.8")


def test_no_output_hides_that_acceptance_was_made_up(tmp_path: Path) -> None:
    runs = [measurement(replicate=r) for r in range(3)] + [measurement(ARM, accepted=3, replicate=r) for r in range(3)]
    kept = store(tmp_path / "run", runs, acceptance="synthetic:0.8")
    for arm in ("none", "ngram-g4-synthetic"):
        lossy = [] if arm == "none" else ["acceptance is synthetic:0.8: it is made up"]
        for r in range(3):
            kept.write_json(f"launches/{arm}-r{r}.json", {"engine": "e", "version": "1", "raw": {}, "lossy": lossy})
    summary = summarize(kept, runs)
    plain, ngram = summary.cells
    assert summary.headline == "SYNTHETIC ACCEPTANCE (synthetic:0.8): NOT ENOUGH EVIDENCE"
    assert (plain.method, ngram.method) == ("none", "ngram-synthetic")
    assert (plain.equivalence, ngram.equivalence) == ("EXACT", "NOT_CHECKED")
    assert "made up" in ngram.equivalence_detail
    assert [mark.code for mark in ngram.marks] == ["lossy"]
    assert render_markdown(summary, []).startswith("# SYNTHETIC ACCEPTANCE")
    kept.compact()
    assert {m.cell.speculation.synthetic for m in kept.measurements()} == {None, "0.8"}


def test_no_output_hides_that_acceptance_was_typical(tmp_path: Path) -> None:
    arm = Speculation("ngram", 4, typical=True)
    runs = [measurement(replicate=r) for r in range(3)] + [measurement(arm, accepted=3, replicate=r) for r in range(3)]
    kept = store(tmp_path / "run", runs, verification="typical")
    for label, lossy in (("none", []), ("ngram-g4-typical", ["verification is typical: not exact"])):
        for r in range(3):
            kept.write_json(f"launches/{label}-r{r}.json", {"engine": "e", "version": "1", "raw": {}, "lossy": lossy})
    summary = summarize(kept, runs)
    plain, ngram = summary.cells
    assert summary.headline == "TYPICAL ACCEPTANCE: NOT ENOUGH EVIDENCE"
    assert (plain.method, ngram.method) == ("none", "ngram-typical")
    assert (plain.equivalence, ngram.equivalence) == ("EXACT", "NOT_CHECKED")
    assert "likely enough" in ngram.equivalence_detail
    assert [mark.code for mark in ngram.marks] == ["lossy"]
    assert render_markdown(summary, []).startswith("# TYPICAL ACCEPTANCE")
