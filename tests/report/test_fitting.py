"""Markdown of any run fits where it is posted, and says what it leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from known_run import NGRAM, failed, measurement, store

from specbench.analysis.summary import RunSummary, summarize
from specbench.report.fitting import COMMENT_BYTES, cut, fitted
from specbench.report.inline_text import inline
from specbench.report.markdown import render_markdown


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    run = [measurement(), measurement(NGRAM, accepted=3), failed(NGRAM, 4, log_tail="γ out of memory\n" * 200)]
    return summarize(store(tmp_path_factory.mktemp("run"), run))


def repeated(summary: RunSummary, cells: int, failures: int = 0) -> RunSummary:
    """The run with so many cells."""
    several = tuple(replace(summary.cells[1], batch_size=i) for i in range(cells))
    return replace(summary, cells=several, failures=summary.failures * failures)


def test_a_small_run_is_there_in_full(summary: RunSummary) -> None:
    markdown = render_markdown(summary, [])
    assert "left out here for length" not in markdown
    assert "γ out of memory\n" * 200 in markdown


@pytest.mark.parametrize(("cells", "failures"), [(500, 0), (500, 300), (2_000, 1)])
def test_a_large_run_fits_a_comment_and_says_where_the_rest_is(summary: RunSummary, cells: int, failures: int) -> None:
    markdown = render_markdown(repeated(summary, cells, failures), [])
    assert len(markdown.encode()) <= COMMENT_BYTES
    assert markdown.startswith(f"# {summary.headline}\n\n{summary.text[:40]}")
    assert "more are left out here for length: all are in report.html and report.json." in markdown
    assert markdown.count("<details>") == markdown.count("</details>")
    assert markdown.count("```") % 2 == 0


def test_no_more_is_cut_than_must_be(summary: RunSummary) -> None:
    """500 cells of a table alone fill a comment several times: most of it is used."""
    markdown = render_markdown(repeated(summary, 500), [])
    assert len(markdown.encode()) > COMMENT_BYTES / 4
    assert f"{500 - 200} more are left out" in markdown


def test_the_first_lines_stay() -> None:
    assert cut(["a", "b", "c"], 2, "the file")[:2] == ["a", "b"]
    assert "1 more are left out here for length: all are in the file." in cut(["a", "b", "c"], 2, "the file")[-1]
    assert cut(["a", "b"], 2, "the file") == ["a", "b"]
    assert cut(["a", "b"], None, "the file") == ["a", "b"]


def test_what_cannot_be_made_to_fit_is_cut_at_a_line_and_says_so() -> None:
    text = "# Run\n\n<details><summary>log</summary>\n\n````text\n" + "γ ```\n" * 100 + "````\n\n</details>\n"
    shown = fitted(lambda most: text, limit=200)
    assert len(shown.encode()) <= 200
    assert shown.startswith(text[:60])
    assert shown.endswith("γ ```\n````\n\n</details>\n\n*The rest is left out here for length.*\n")


def test_a_configuration_goes_before_the_verdict_does(summary: RunSummary) -> None:
    long = replace(summary, manifest={"config": {"engine_arg": [f"--flag-{i} {'x' * 60}" for i in range(2_000)]}})
    markdown = render_markdown(long, [])
    assert markdown.startswith(f"# {summary.headline}")
    assert "whose configuration is in report.html" in markdown
    assert "--flag-1999" not in markdown
    assert "The rest is left out" not in markdown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\r\ntwo\x0bthree", "one two three"),
        ("ask @someone", "ask &#64;someone"),
        ("<b> & |", "&lt;b> &amp; \\|"),
    ],
)
def test_text_from_outside_stays_in_its_line_and_calls_nobody(text: str, shown: str) -> None:
    assert inline(text) == shown
