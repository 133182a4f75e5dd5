"""What the fit knows of a method by its name."""

from __future__ import annotations

import pytest

from specbench.planning.cells import drafts_at_once


@pytest.mark.parametrize("arm", ["ngram", "ngram-synthetic", "suffix", "suffix-warm-16", "medusa", "ngram-schedule"])
def test_what_looks_up_drafts_at_once_whatever_else_is_asked_of_it(arm: str) -> None:
    assert drafts_at_once(arm)


@pytest.mark.parametrize("arm", ["draft_model", "draft_model-synthetic", "eagle3", "mtp", "layer_skip"])
def test_a_model_drafts_token_by_token(arm: str) -> None:
    assert not drafts_at_once(arm)
