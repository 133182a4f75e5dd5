"""YAML that means what it says: a key given twice is a mistake, a date is a text."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from specbench.errors import SpecbenchError


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; empty for an empty file. Raises SpecbenchError naming the file."""
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise SpecbenchError(f"cannot read the configuration {path}: {error.strerror}.") from error
    except _Twice as twice:
        raise SpecbenchError(f"{path}:{twice.line}: {twice.key!r} is given twice. Keep one of them.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecbenchError(f"{path}: not valid YAML ({' '.join(str(error).split())}).") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SpecbenchError(f"{path}: a configuration is a mapping of options; got a {type(values).__name__}.")
    return values


class _Twice(Exception):
    def __init__(self, key: str, line: int) -> None:
        self.key, self.line = key, line


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml's, where it is
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise _Twice(key.value, key.start_mark.line + 1)
                seen.add(key.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


# A chat template's option such as date_string goes to the server as JSON, which has no dates.
_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: str(node.value))
