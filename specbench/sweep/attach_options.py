"""The options of a sweep over servers that already run, and what they rule out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from yarl import URL

from specbench.access import is_secret_name
from specbench.speculation import UNKNOWN

ATTACH = "attach"

UNSHOWN = frozenset({"url", "baseline_url", "api_key_env", "header", "header_env"})
"""Fields whose wrong value no message repeats: it may be a secret."""

AUTO = "auto"
"""The target's name where the attached server serves one model alone."""

_MEANINGLESS = (
    *("drafter", "verification", "tree", "device", "dtype", "threads", "baseline", "baseline_vs_baseline"),
    *("tensor_parallel", "quantization", "memory_fraction", "kv_cache", "prefix_caching"),
    *("engine_arg", "engine_version", "python", "container", "scenario", "acceptance"),
)
"""Options that say how a server is to be started."""

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
"""Capitals alone, as variables are written: who gives the key itself by mistake does not pass."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class AttachOptions(BaseModel):
    """Where the servers are, and how they are reached. No secret stands here, only names of variables that hold one."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    url: str | None = Field(None, description="server that already runs: the one that speculates")
    baseline_url: str | None = Field(None, description="the same without speculation, running beside it")
    api_key_env: str | None = Field(None, description="variable that holds the servers' API key")
    header: Mapping[str, str] = Field(default_factory=dict, description="headers of every request; no secrets")
    header_env: Mapping[str, str] = Field(default_factory=dict, description="headers whose values variables hold")
    ca_file: Path | None = Field(None, description="certificate authority to trust besides the system's")
    allow_reset: bool = Field(False, description="empty the servers' prefix caches before each measurement")

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_known(cls, values: Any) -> Any:
        """What the others default to is of servers that specbench starts."""
        if isinstance(values, Mapping) and values.get("backend") == ATTACH:
            return {"method": (UNKNOWN,), "gamma": (), "target": AUTO, **values}
        return values

    @model_validator(mode="after")
    def _fits_what_runs(self) -> AttachOptions:
        given = {name: getattr(self, name) for name in type(self).model_fields}
        if given.get("backend") != ATTACH:
            for name in AttachOptions.model_fields:
                if given[name] != _default(type(self), name):
                    raise ValueError(f"--{_flag(name)} is of servers that already run: add --backend {ATTACH}")
            return self
        if self.url is None:
            raise ValueError(f"--backend {ATTACH} needs --url URL, the server to measure")
        for flag, url in (("--url", self.url), ("--baseline-url", self.baseline_url)):
            if url is not None:
                _check_url(flag, url)
        if self.baseline_url is not None and base_url(self.baseline_url) == base_url(self.url):
            raise ValueError("--url and --baseline-url are the same server: one of them has to speculate")
        for name in _MEANINGLESS:
            if name in given and given[name] != _default(type(self), name):
                raise ValueError(f"--{_flag(name)} is for starting a server, and an attached one runs: leave it out")
        if len(given.get("method", ())) > 1 or len(given.get("gamma", ())) > 1:
            raise ValueError(
                "a server that runs has one method and one gamma: give one of each, and attach to several servers one "
                "after another"
            )
        if any(isinstance(gamma, str) for gamma in given.get("gamma", ())):
            raise ValueError("a schedule or rule of gamma is for starting a server: give the largest gamma, or none")
        _check_headers(self.header, self.header_env)
        _check_variables(self.api_key_env, self.header_env)
        return self

    @property
    def is_attached(self) -> bool:
        """Whether the servers already run, so that nothing is started, and nothing stopped."""
        return self.url is not None


def base_url(url: str) -> str:
    """The part before /v1, which clients are often given too."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _check_url(flag: str, written: str) -> None:
    """Raises ValueError, never with the URL: it may hold what it should not."""
    try:
        url = URL(written)
    except ValueError:
        raise ValueError(f"{flag} is no URL: expected one such as http://127.0.0.1:8000") from None
    if url.user is not None or url.password is not None:
        raise ValueError(f"{flag} holds a user or a password: give them by --header-env Authorization=VARIABLE")
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{flag} is no URL of a server: expected one such as http://127.0.0.1:8000")
    if url.query_string or url.fragment:
        raise ValueError(f"{flag} ends at the server's address: leave out what begins with ? or #")


def _check_variables(key: str | None, headers: Mapping[str, str]) -> None:
    """Raises ValueError, again without what was written."""
    if key is not None and not _VARIABLE.fullmatch(key):
        raise ValueError("--api-key-env takes the name of a variable, such as OPENAI_API_KEY, never the key itself")
    if not all(_VARIABLE.fullmatch(variable) for variable in headers.values()):
        raise ValueError("--header-env takes NAME=VARIABLE, a variable's name in capitals, never the value itself")


def _check_headers(literal: Mapping[str, str], by_variable: Mapping[str, str]) -> None:
    """Raises ValueError. A name is repeated only once it is known to be one: a key that ends in `=` reads as a name."""
    if not all(_HEADER_NAME.fullmatch(name) for name in (*literal, *by_variable)):
        raise ValueError("what stands before the first = is no name of a header: NAME=VALUE, as in X-Team=search")
    if not all(value.strip("=") for value in (*literal.values(), *by_variable.values())):
        raise ValueError("a header has no value: NAME=VALUE, as in X-Team=search")
    if secret := [name for name in literal if is_secret_name(name)]:
        raise ValueError(
            f"--header {secret[0]} looks like a secret, which would be written into the run: put its value into a "
            f"variable and name that, --header-env {secret[0]}=VARIABLE"
        )
    if any(not value.isprintable() for value in literal.values()):
        raise ValueError("a header's value is one line of printable characters")


def _default(model: type[BaseModel], name: str) -> Any:
    return model.model_fields[name].get_default(call_default_factory=True)


def _flag(name: str) -> str:
    return name.replace("_", "-")
