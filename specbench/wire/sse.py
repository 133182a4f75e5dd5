"""Server-sent events, the encoding side (WHATWG HTML, section 9.2.6)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DONE = b"data: [DONE]\n\n"
"""OpenAI's last event of a stream."""


def event(body: Mapping[str, Any]) -> bytes:
    """One event whose data is a JSON object."""
    return b"data: " + json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
