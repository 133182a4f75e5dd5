"""Run by the interpreter of SGLang's parser-only environment: its own parser and resolver, on command lines from stdin.

In: a JSON list of argument lists. Out: for each {"parsed": …, "resolved": …}, both the settings that were asked for by
name, or the error as {"error": type, "message": text}; and "flags", all that the parser knows.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from importlib.machinery import ModuleSpec
from typing import Any
from unittest.mock import MagicMock

from sglang.srt.server_args import ServerArgs, prepare_server_args  # type: ignore[import-not-found]
from transformers.utils import import_utils

TORCHVISION = ("", ".transforms", ".transforms.functional", ".transforms.v2", ".transforms.v2.functional", ".io")
TYPES = {"int": "int", "float": "float", "human_readable_int": "int"}


def main() -> None:
    commands = json.load(sys.stdin)
    _stand_in_for_torchvision()
    answers = [
        {"parsed": _attempt(words, resolve=False), "resolved": _attempt(words, resolve=True)} for words in commands
    ]
    json.dump({"answers": answers, "flags": _flags()}, sys.stdout)


def _stand_in_for_torchvision() -> None:
    """The resolver imports image models' configurations, and these import it. No text model's settings depend on it."""
    import_utils.is_torchvision_available()  # whose answer is kept
    for name in TORCHVISION:
        module = MagicMock()
        module.__spec__, module.__path__ = ModuleSpec(f"torchvision{name}", None), []
        sys.modules[f"torchvision{name}"] = module


def _attempt(words: list[str], *, resolve: bool) -> dict[str, Any]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            settings = prepare_server_args(words)
            if resolve:
                settings.resolve_once()
                return _plain(settings.resolved_dict())
            return _plain(vars(settings))
    except SystemExit as exit_:
        return {"error": f"exit {exit_.code}", "message": said.getvalue().strip().rsplit("\n", 1)[-1]}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    kinds = (str, int, float, bool, list, type(None))
    return {name: value for name, value in settings.items() if isinstance(value, kinds) and name[0] != "_"}


def _flags() -> list[dict[str, Any]]:
    """Every flag, in the form of tests/contract_servers/sglang_flags.json."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        switch = action.nargs == 0 or type(action).__name__ == "DeprecatedStoreConstAction"
        flag: dict[str, Any] = {"flags": list(action.option_strings), "dest": action.dest}
        flag["takes"] = None if switch else TYPES.get(getattr(action.type, "__name__", "str"), "str")
        if action.nargs in ("+", "*", "?"):
            flag["nargs"] = action.nargs
        if action.choices:
            flag["choices"] = sorted(map(str, action.choices))
        found.append(flag)
    return found


main()
