"""What a running server says of itself when asked politely: every answer that it gives, and nothing changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from specbench.access import Access, is_secret_name
from specbench.body import MOST_JSON, MOST_METRICS, read_text
from specbench.errors import SpecbenchError
from specbench.telemetry.prometheus import Metrics, parse

TIMEOUT = 20.0
"""Seconds for one answer at most."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers of one server, without secrets; empty where it gives none.

    models: the entries of /v1/models;  server: the header of that name
    version, server_info, info, props, slots: what /version … /slots hold
    metrics: of /metrics in Prometheus's format, by name
    """

    models: tuple[Mapping[str, Any], ...] = ()
    server: str = ""
    version: str | None = None
    server_info: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    props: Mapping[str, Any] = field(default_factory=dict)
    slots: tuple[Mapping[str, Any], ...] = ()
    metrics: Metrics = field(default_factory=dict)

    @property
    def owners(self) -> set[str]:
        return {str(model.get("owned_by", "")).lower() for model in self.models}

    @property
    def is_tensorrt_llm(self) -> bool:
        """By what it owns, or, behind a gateway that writes another name there, by what only its /server_info has."""
        return any("tensorrt" in owner for owner in self.owners) or "disaggregated_params" in self.server_info

    def has_metrics(self, prefix: str) -> bool:
        return any(name.startswith(prefix) for name in self.metrics)


async def gather(url: str, access: Access, patience: float = TIMEOUT) -> Evidence:
    """Ask the server. Raises SpecbenchError where nobody answers, or refuses the key: before anything is measured.

    patience: seconds for one answer, of which TIMEOUT at most are waited
    """
    seconds = min(TIMEOUT, patience)
    timeout = aiohttp.ClientTimeout(total=seconds)
    async with access.session(timeout=timeout, headers={"Accept": "application/json"}) as session:
        try:
            async with session.get(f"{url}/v1/models", allow_redirects=False) as response:
                status, server = response.status, response.headers.get("Server", "")
                text = await read_text(response, MOST_JSON)
        except aiohttp.ClientConnectorCertificateError as error:
            raise SpecbenchError(
                f"the certificate of {url} is not trusted ({access.redact(str(error.certificate_error))}). Name the "
                "authority that signed it: --ca-file FILE."
            ) from error
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            plainly = error.os_error.strerror if isinstance(error, aiohttp.ClientConnectorError) else str(error)
            reason = access.redact(plainly or "") or f"no answer within {seconds:g} s"
            raise SpecbenchError(f"no server answers at {url} ({reason}). Start it first, or mend the URL.") from error
        refuse_locked(url, status, given=bool(access.secrets))
        if 300 <= status < 400:
            raise SpecbenchError(f"{url} sends clients on to another address: give that one.")
        models = _object(text).get("data") if status == 200 else None
        known = [access.without_secrets(m) for m in models or () if isinstance(m, Mapping)]
        paths = ("/version", "/server_info?config_format=json", "/info", "/props", "/slots")
        *texts, slots = await asyncio.gather(*(_text(session, url + path) for path in paths))
        version, server_info, info, props = (_clean(_object(text), access) for text in texts)
        evidence = Evidence(
            models=tuple(known),
            server=server,
            version=str(version["version"]) if "version" in version else None,
            server_info=server_info,
            info=info,
            props=props,
            slots=tuple(_clean(slot, access) for slot in _list(slots)),
        )
        # TensorRT-LLM gives each iteration of its /metrics to one reader only, and that may be somebody's dashboard.
        if evidence.is_tensorrt_llm:
            return evidence
        return replace(evidence, metrics=_metrics(await _text(session, f"{url}/metrics", MOST_METRICS)))


def refuse_locked(url: str, status: int, *, given: bool) -> None:
    """Raises SpecbenchError where the server wants another key, or one at all."""
    if status in (401, 403):
        way_out = (
            "It refuses the key that was given: check --api-key-env and --header-env, and what the key may be used for."
            if given
            else "Put its key into a variable and name that: --api-key-env NAME."
        )
        raise SpecbenchError(f"{url} answers {status}, it lets nobody in without a key. {way_out}")


async def _text(session: aiohttp.ClientSession, url: str, most: int = MOST_JSON) -> str:
    """The body of a good answer; empty for any other. Raises SpecbenchError for one above `most` bytes."""
    try:
        async with session.get(url, allow_redirects=False) as response:
            return await read_text(response, most) if response.status == 200 else ""
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
        return ""


def _object(text: str) -> Mapping[str, Any]:
    value = _json(text)
    return value if isinstance(value, Mapping) else {}


def _list(text: str) -> list[Mapping[str, Any]]:
    value = _json(text)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _metrics(text: str) -> Metrics:
    try:
        return parse(text)
    except SpecbenchError:
        return {}


def _clean(value: Mapping[str, Any], access: Access) -> dict[str, Any]:
    """Without secrets: ours wherever they stand, and what is called like one of the server's own."""
    cleaned: dict[str, Any] = access.without_secrets(_without_secret_names(value))
    return cleaned


def _without_secret_names(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_secret_names(v) for k, v in value.items() if not is_secret_name(str(k))}
    return [_without_secret_names(item) for item in value] if isinstance(value, list) else value
