"""Secrets among the words of an engine's command line, which a run writes down for anyone to read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from specbench.access import is_secret_name

_ENGINES_OWN = ("api_key", "admin_api_key", "hf_token")
"""argparse takes the beginning of a flag for it: `--hf-tok`."""

_HOLDS_ONE = re.compile(
    r"(secret|passw(or)?d|passphrase|passcode|credentials?|cookie|signature|bearer|jwt|authorization|auth|key|token)s?$"
)
_OF_SOMETHING_ELSE = re.compile(
    r"^(allow|enable|disable|no)_|(^|_)(per|first|last|next|inter|max|min|num|bos|eos|pad|unk|sep|cls|mask|stop|begin|start|end|think|image|audio"
    r"|video|mm|special|added|extra|draft|speculative|batched|prefill|decode)_(token|key)s?$"
)


def secret_setting(words: Iterable[str]) -> str | None:
    """The first name that is given a secret: a flag, a NAME=VALUE, or a name in a JSON value. None: there is none.

    Narrower than `is_secret_name`, since what is refused cannot be measured: `--time-to-first-token`, `--ssl-keyfile`.
    """
    for word in words:
        written, equals, value = word.partition("=")
        name = written.lstrip("-")
        abbreviated = (
            written.startswith("--") and len(name) > 1 and any(f.startswith(_snake(name)) for f in _ENGINES_OWN)
        )
        if (equals or written.startswith("-")) and (abbreviated or _holds_secret(name)):
            return written
        for text in (word, value):
            if text.startswith(("{", "[")) and (inside := _in_json(text)):
                return inside
    return None


def _holds_secret(name: str) -> bool:
    last = _snake(name.rpartition(".")[2])
    return is_secret_name(last) and _HOLDS_ONE.search(last) is not None and _OF_SOMETHING_ELSE.search(last) is None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower()


def _in_json(text: str) -> str | None:
    try:
        return _named(json.loads(text))
    except (ValueError, RecursionError):  # the engine will say what is wrong with it
        return None


def _named(value: Any) -> str | None:
    if isinstance(value, Mapping):
        for name, item in value.items():
            if inside := name if _holds_secret(name) and isinstance(item, str) and item else _named(item):
                return str(inside)
    if isinstance(value, list):
        return next(filter(None, map(_named, value)), None)
    return None
