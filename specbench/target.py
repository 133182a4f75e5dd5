"""`--target`: the embedded default, a directory, or a model on the Hugging Face hub; always a directory in the end."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

from specbench.demo import demo_target
from specbench.errors import SpecbenchError
from specbench.paths import expand_home

logger = logging.getLogger(__name__)

HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
HUB_FILES = ["*.json", "*.jinja", "*.model", "*.tiktoken", "*.txt", "*.safetensors"]
OLD_WEIGHTS = ["*.bin", "*.pt"]
"""How many published heads are stored; fetched where there are no safetensors, since others hold the same twice."""


def resolve_target(name: str, progress: Callable[[str], None] = logger.info) -> Path:
    """The absolute directory of the model that `name` means, fetched if need be.

    name: `demo`, an existing directory, or a hub id such as `org/model`
    progress: gets a sentence before each long step
    Raises SpecbenchError where there is no such model, or no way to it (offline, gated).
    """
    if name == "demo":
        return demo_target(progress)
    return local_model(name) or _from_hub(name, progress)


def local_model(name: str) -> Path | None:
    """The absolute directory of a model that is here; None for what may be a hub id. Touches no network.

    Raises SpecbenchError for what is neither.
    """
    path = expand_home(name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise SpecbenchError(
                f"{name} is not a model directory: it has no config.json. Give a Hugging Face directory "
                "(config.json, safetensors, tokenizer), or --target demo."
            )
        return path.absolute()
    if path.is_file():
        raise SpecbenchError(f"{name} is a file, not a model. Give the Hugging Face directory that holds config.json.")
    if name.startswith((".", "/", "~")) or not HUB_ID.fullmatch(name):
        raise SpecbenchError(
            f"no model directory {name!r}. Give an existing directory, a hub id such as org/model, or --target demo."
        )
    return None


def _from_hub(name: str, progress: Callable[[str], None]) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
    except ImportError as error:
        raise SpecbenchError(
            f"no directory {name!r} here, and fetching from the hub needs huggingface_hub: pip install '.[reference]'."
        ) from error
    progress(f"Fetching {name} from the Hugging Face hub (what is already in its cache is kept).")
    try:
        path = Path(snapshot_download(name, allow_patterns=HUB_FILES))
        if not any(path.glob("*.safetensors")):
            path = Path(snapshot_download(name, allow_patterns=[*HUB_FILES, *OLD_WEIGHTS]))
        return path.absolute()
    except GatedRepoError as error:
        raise SpecbenchError(f"{name} is gated: accept its licence on the hub, then run `hf auth login`.") from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise SpecbenchError(
            f"no model {name!r}: neither a directory here nor a public model on the hub. "
            "Check the spelling, or run `hf auth login` if it is private."
        ) from error
    except OSError as error:  # the hub's other errors are OSErrors: no network, nothing cached, disk full
        raise SpecbenchError(
            f"cannot fetch {name} from the hub and it is not in the hub's cache ({_first_line(error)}). "
            "Check the network, or give a local directory."
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
