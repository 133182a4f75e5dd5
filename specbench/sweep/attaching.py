"""From the options of an attached sweep to servers that were asked, and a configuration that says what they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from specbench.access import LEAST_SECRET, PLACEHOLDERS, Access, is_secret_name
from specbench.backends.attach.backend import AttachBackend, Found, find
from specbench.backends.attach.counters import under_way
from specbench.backends.attach.engines import LLAMA_CPP_SERVER, OTHER
from specbench.backends.attach.evidence import refuse_locked
from specbench.backends.attach.server import is_local, listening_pid
from specbench.errors import SpecbenchError
from specbench.paths import expand_home
from specbench.replay.client import StreamingClient
from specbench.replay.dialect import Dialect
from specbench.replay.records import REFUSED
from specbench.replay.request import RequestSpec
from specbench.speculation import UNKNOWN
from specbench.sweep.attach_options import AUTO, base_url
from specbench.sweep.config import SweepConfig
from specbench.sweep.manifest import describe_hardware
from specbench.sweep.requests import request_order
from specbench.workloads.prompt import Workload

TRIAL_TOKENS = 8
MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class Attached:
    """config: with the target, method and gamma that the servers told;  made_with: what the manifest says of them"""

    config: SweepConfig
    backend: AttachBackend
    made_with: Mapping[str, Any]


def attach(
    config: SweepConfig,
    workloads: Mapping[str, Workload],
    environment: Mapping[str, str],
    note: Callable[[str], None],
) -> Attached:
    """Ask the servers what they are, and let each answer one short request.

    environment: where keys are looked up; they go into requests, and nowhere else
    Raises SpecbenchError for whatever would spoil the measurement and can be known now.
    """
    return asyncio.run(_attach(config, workloads, environment, note))


async def _attach(
    config: SweepConfig,
    workloads: Mapping[str, Workload],
    environment: Mapping[str, str],
    note: Callable[[str], None],
) -> Attached:
    assert config.url is not None
    url, baseline_url = base_url(config.url), config.baseline_url and base_url(config.baseline_url)

    async def ask(address: str) -> Found:
        return await find(address, access_to(address, config, environment), config.ready_timeout)

    server = await ask(url)
    baseline = await ask(baseline_url) if baseline_url else None
    servers = [found for found in (baseline, server) if found is not None]
    _check_arms(server, baseline)
    resolved = config.model_copy(update={"target": _target(config, servers), **_speculation(config, server)})
    request = _trial(resolved, workloads)
    spoken = [await _spoken(found, resolved, request) for found in servers]
    for found in servers:
        note(_describe(found, resolved))
    # Both are asked the same way, so the more modest of them decides.
    dialect = max(spoken, key=server.engine.dialects.index)
    # A single server without speculation is a baseline that nothing is compared with.
    plain, speculative = (baseline, server) if resolved.method else (server, None)
    backend = AttachBackend(plain, speculative, dialect, reset=config.allow_reset)
    return Attached(resolved, backend, _made_with(resolved, backend))


def access_to(url: str, config: SweepConfig, environment: Mapping[str, str]) -> Access:
    """Headers, trust and proxy for a server. Raises SpecbenchError for a variable that is not there."""
    headers, secrets = dict(config.header), []
    for flag, name, variable in (
        *((f"--header-env {header}", header, variable) for header, variable in config.header_env.items()),
        *((("--api-key-env", "Authorization", config.api_key_env),) if config.api_key_env else ()),
    ):
        value = environment.get(variable, "").strip()
        if not value or not value.isascii() or not value.isprintable():
            raise SpecbenchError(f"{flag}: the variable {variable} is not set, or holds no line of ASCII. Export it.")
        key = value.split()[-1]
        if is_secret_name(name) and len(key) < LEAST_SECRET and key not in PLACEHOLDERS:
            raise SpecbenchError(
                f"{flag}: the variable {variable} holds a key of fewer than {LEAST_SECRET} characters, which cannot be "
                "kept out of what is written. Give the server a longer one; where it checks none, EMPTY."
            )
        headers[name] = f"Bearer {value}" if flag == "--api-key-env" else value
        secrets += [value, *value.split()[1:]]  # `Bearer …` holds a secret too
    proxy = None if is_local(url) or proxy_bypass(urlsplit(url).netloc) else getproxies().get(urlsplit(url).scheme)
    if proxy is not None and urlsplit(proxy).password:
        secrets.append(str(urlsplit(proxy).password))
    ca_file = None if config.ca_file is None else expand_home(config.ca_file)
    return Access(headers, tuple(secrets), ca_file, proxy)


def _check_arms(server: Found, baseline: Found | None) -> None:
    if baseline is None:
        return
    if server.engine is not baseline.engine:
        raise SpecbenchError(
            f"{baseline.url} runs {baseline.engine.name} and {server.url} runs {server.engine.name}: the ratio of two "
            "engines is no speedup of speculation. Run the baseline with the same engine."
        )
    if baseline.told.method not in (None, "none"):
        raise SpecbenchError(
            f"--baseline-url {baseline.url} speculates{_named(baseline)}: it is no baseline. Start it without "
            "speculation."
        )
    if server.told.method == "none":
        raise SpecbenchError(
            f"--url {server.url} does not speculate: start it with speculation, or measure it alone, without "
            "--baseline-url."
        )


def _speculation(config: SweepConfig, server: Found) -> dict[str, Any]:
    """The method and gamma to write down: what the server tells, else what the user says."""
    told, said = server.told, config.method[0] if config.method else "none"
    if told.method not in (None, UNKNOWN) and said not in (UNKNOWN, told.method):
        raise SpecbenchError(f"--method says {said}, and {server.url} runs {told.method}.")
    if told.method == UNKNOWN and said == "none":
        raise SpecbenchError(f"--method says none, and {server.url} speculates{_named(server)}.")
    method = said if told.method in (None, UNKNOWN) else told.method
    if method == "none":
        return {"method": (), "gamma": ()}
    if told.gamma and config.gamma and config.gamma != (told.gamma,):
        raise SpecbenchError(f"--gamma says {config.gamma[0]}, and {server.url} drafts {told.gamma} tokens.")
    return {"method": (method,), "gamma": (told.gamma,) if told.gamma else config.gamma}


def _named(found: Found) -> str:
    gamma = f"gamma {found.told.gamma}" if found.told.gamma else ""
    method = found.told.method if found.told.method not in (None, UNKNOWN, "none") else ""
    words = ", ".join(word for word in (method, gamma) if word)
    return f" ({words})" if words else ""


def _target(config: SweepConfig, servers: list[Found]) -> str:
    """The name that every server answers to."""
    by_server = [[str(model.get("id")) for model in found.evidence.models] for found in servers]
    for found, names in zip(servers, by_server, strict=True):
        # llama.cpp answers to any name, and a gateway may know more than it lists.
        if (
            config.target != AUTO
            and names
            and config.target not in names
            and found.engine
            not in (
                LLAMA_CPP_SERVER,
                OTHER,
            )
        ):
            raise SpecbenchError(f"{found.url} does not serve {config.target!r}: --target {' or '.join(_few(names))}.")
        if config.target == AUTO and len(names) != 1:
            serves = f"serves {', '.join(_few(names))}" if names else "does not tell what it serves"
            raise SpecbenchError(f"{found.url} {serves}: say which to measure, --target NAME.")
    if config.target != AUTO:
        return config.target
    if len({names[0] for names in by_server}) > 1:
        raise SpecbenchError(
            f"the servers call their models {' and '.join(names[0] for names in by_server)}: let both serve the same "
            "one under the same name."
        )
    return by_server[0][0]


def _few(names: list[str]) -> list[str]:
    return names if len(names) <= MOST_NAMES else [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} others"]


def _trial(config: SweepConfig, workloads: Mapping[str, Workload]) -> RequestSpec:
    """A short prompt of the sweep's own, and few tokens."""
    requests = [request for workload in workloads.values() for request in request_order(workload, config, 1)]
    shortest = min(requests, key=lambda request: len(str(request.messages or request.prompt)))
    return replace(shortest, max_tokens=TRIAL_TOKENS)


async def _spoken(found: Found, config: SweepConfig, request: RequestSpec) -> Dialect:
    """The most telling way of asking that the server takes. Raises SpecbenchError where it takes none."""
    error = ""
    for dialect in found.engine.dialects:
        async with StreamingClient(
            found.url, config.target, dialect=dialect, timeout=config.request_timeout, access=found.access
        ) as client:
            trace = await client.generate(request)
        if trace.error is None:
            return dialect
        error = trace.error
        for status in (401, 403):
            if error.startswith(f"the server answered {status}"):
                refuse_locked(found.url, status, given=bool(found.access.secrets))
        if not error.startswith(REFUSED) and "cannot be counted" not in error:
            break
    raise SpecbenchError(f"{found.url} does not answer a streamed request: {error.rstrip('.')}.")


def _describe(found: Found, config: SweepConfig) -> str:
    busy = under_way(found.evidence.metrics, found.engine)
    others = f" {busy} requests of others are under way, which would spoil every figure." if busy else ""
    simulated = "SIMULATED, " if found.is_simulated else ""
    return (
        f"{found.url}: {simulated}{found.engine.name}, {found.version}{_named(found)}; serves {config.target}.{others}"
    )


def _made_with(config: SweepConfig, backend: AttachBackend) -> dict[str, Any]:
    arms = {"baseline": backend.baseline, "speculative": backend.speculative}
    known = {arm: found for arm, found in arms.items() if found is not None}
    simulated = [found.evidence.server_info["simulated"] for found in known.values() if found.is_simulated]
    described: dict[str, Any] = {
        "hardware": _hardware(list(known.values())),
        "servers": {arm: {"url": found.url, **found.settings} for arm, found in known.items()},
        "target": {"name": config.target},
        "drafters": {},
    }
    return {**described, "simulated": {"scenario": simulated[0]["scenario"]}} if simulated else described


def _hardware(servers: list[Found]) -> Mapping[str, Any]:
    """This machine's, where the servers are seen to run on it."""
    if scenario := next((f.evidence.server_info["simulated"]["scenario"] for f in servers if f.is_simulated), None):
        return {"kind": f"SIMULATED hardware (scenario {scenario})"}
    if all(listening_pid(found.url) is not None for found in servers):
        return describe_hardware()
    return {"kind": f"hardware that is not known, behind {' and '.join(found.url for found in servers)}"}
