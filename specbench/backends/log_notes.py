"""What the log of a server that did start says: what it does otherwise than it was asked to."""

from __future__ import annotations

import re

NOTES = (
    (
        r"Disable overlap scheduler for speculation mode (\w+)",
        "overlap_scheduler is off with {1}, whatever was asked: only arms without it are a fair baseline "
        "(--baseline matched)",
    ),
    (
        r"Overlap scheduler is not supported for",
        "overlap_scheduler is off, whatever was asked: only arms without it are a fair baseline (--baseline matched)",
    ),
    (
        r"Rejection sampling will fallback to greedy sampling",
        "drafts are compared with sampled tokens, not rejection-sampled: at a temperature fewer are accepted",
    ),
    (
        r"Model Runner V2 does not yet support speculative method '(\w+)'",
        "{1} runs on vLLM's first model runner and arms without it on its second: only arms on the same one are a fair "
        "baseline (--baseline matched)",
    ),
    (
        r"Disabling block reuse for (\w+) backend",
        "block reuse is off with attention backend {1}, whatever was asked",
    ),
)
"""What to look for, and what it means ({1}: the pattern's group)."""


def log_differences(log: str) -> tuple[str, ...]:
    """A clause for each that is found, in the form of `ResolvedSettings.differences`."""
    found = ((sentence, re.search(pattern, log)) for pattern, sentence in NOTES)
    return tuple(s.replace("{1}", m[1]) if m.groups() else s for s, m in found if m is not None)
