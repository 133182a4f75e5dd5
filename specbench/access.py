"""How a server is reached: what goes into every request, and what must never come out again."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specbench.errors import SpecbenchError

if TYPE_CHECKING:
    import aiohttp

LEAST_SECRET = 8
"""Characters of a secret at least: shorter ones stand in ordinary text, and cannot be kept out of it."""

PLACEHOLDERS = frozenset({"EMPTY", "dummy", "fake", "none", "null", "test", "x"})
"""Keys of servers that check none: no secrets."""

MASK = "***"

_SECRET_NAME = re.compile(
    r"secret|passw|passphrase|passcode|credential|cookie|session|signature|bearer|jwt|hmac|environ|launch_command"
    r"|(key|keyfile|keys|token|pass|sig|env)(_|$)"
    r"|(^|_)auth(?!or(s|ed|ing|ity)?(_|$))"
)


def is_secret_name(name: str) -> bool:
    """Whether what is called so may hold something that nobody should read: a header, a setting, a variable.

    Rather once too often: a setting that is left out is no loss (`eos_token`), a key that is written down is one.
    SGLang's `launch_command` holds whatever was on its command line.
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower()
    return _SECRET_NAME.search(words) is not None


@dataclass(frozen=True, slots=True)
class Access:
    """Headers, trust and proxy of one server. Prints without its secrets.

    headers: sent with every request, the key's among them;  secrets: what of them nobody may read
    ca_file: a certificate authority that is trusted besides the system's own
    proxy:   URL of the proxy to go through, None for none
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    ca_file: Path | None = None
    proxy: str | None = field(default=None, repr=False)
    _spellings: tuple[str, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        long = [secret for secret in self.secrets if len(secret) >= LEAST_SECRET]
        as_json = [json.dumps(secret)[1:-1] for secret in long]
        spellings = {*long, *as_json, *(text.replace("/", "\\/") for text in as_json)}
        object.__setattr__(self, "_spellings", tuple(sorted(spellings, key=len, reverse=True)))

    def session(
        self,
        base_url: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        connector: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> aiohttp.ClientSession:
        """A session with all of it. connector, options: of aiohttp.TCPConnector and aiohttp.ClientSession"""
        import aiohttp  # a third of a second, which whoever only reads runs need not wait

        return aiohttp.ClientSession(
            base_url,
            connector=aiohttp.TCPConnector(ssl=self._trust(), **(connector or {})),
            headers={**(headers or {}), **self.headers},
            proxy=self.proxy,
            **options,
        )

    def redact(self, text: str) -> str:
        """The text without secrets, also as JSON writes them."""
        for secret in self._spellings:
            text = text.replace(secret, MASK)
        return text

    def mask(self, data: bytes) -> bytes:
        """The bytes with every secret overwritten, as many as before."""
        for secret in self._spellings:
            data = data.replace(secret.encode(), b"*" * len(secret.encode()))
        return data

    def without_secrets(self, value: Any) -> Any:
        """`redact` for every text in a JSON value."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact(str(name)): self.without_secrets(item) for name, item in value.items()}
        return [self.without_secrets(item) for item in value] if isinstance(value, list | tuple) else value

    def _trust(self) -> ssl.SSLContext | bool:
        if self.ca_file is None:
            return True
        context = ssl.create_default_context()
        try:
            context.load_verify_locations(self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise SpecbenchError(
                f"--ca-file {self.ca_file} holds no certificate that can be read ({error.strerror or error})."
            ) from error
        return context


DIRECT = Access()
"""A server on this machine, or an open one: nothing is added."""
