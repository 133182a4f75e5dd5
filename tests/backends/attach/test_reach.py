"""How a server is reached: keys, headers, proxies, certificates, and connections that end too soon."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specbench.access import DIRECT, Access
from specbench.backends.attach.evidence import gather
from specbench.errors import SpecbenchError
from specbench.replay.client import StreamingClient
from specbench.replay.dialect import LLAMA_CPP
from specbench.replay.request import RequestSpec
from specbench.sweep.attaching import access_to
from specbench.sweep.config import SweepConfig
from specbench.sweep.config_file import load_config

REMOTE, LOCAL = "http://gpu.example.com:8000", "http://127.0.0.1:8000"


def config(**given: Any) -> SweepConfig:
    return load_config(None, {"workload": ["w.jsonl"], "backend": "attach", "url": REMOTE, **given})


def test_a_key_becomes_a_header_and_a_secret() -> None:
    access = access_to(REMOTE, config(api_key_env="KEY", header={"X-Team": "search"}), {"KEY": "sk-0123456789\n"})
    assert dict(access.headers) == {"Authorization": "Bearer sk-0123456789", "X-Team": "search"}
    assert "sk-0123456789" in access.secrets
    assert "search" not in access.secrets


def test_a_whole_header_is_a_secret_and_so_is_the_key_in_it() -> None:
    access = access_to(REMOTE, config(header_env={"Authorization": "AUTH"}), {"AUTH": "Bearer sk-0123456789"})
    assert access.headers["Authorization"] == "Bearer sk-0123456789"
    assert {"Bearer sk-0123456789", "sk-0123456789"} <= set(access.secrets)


@pytest.mark.parametrize(
    ("given", "value", "taken"),
    [
        ({"api_key_env": "KEY"}, "abc-123", False),
        ({"header_env": {"Authorization": "KEY"}}, "Bearer abc-123", False),
        ({"header_env": {"X-Api-Key": "KEY"}}, "abc-123", False),
        ({"api_key_env": "KEY"}, "EMPTY", True),
        ({"header_env": {"X-Team": "KEY"}}, "abc-123", True),
        ({"api_key_env": "KEY"}, "abc-1234", True),
    ],
)
def test_a_key_too_short_to_be_masked_is_refused_unless_it_is_a_placeholder(
    given: dict[str, Any], value: str, taken: bool
) -> None:
    if taken:
        assert any(value in header for header in access_to(REMOTE, config(**given), {"KEY": value}).headers.values())
        return
    with pytest.raises(SpecbenchError, match="the variable KEY holds a key of fewer than 8") as raised:
        access_to(REMOTE, config(**given), {"KEY": value})
    assert "abc-123" not in str(raised.value)


@pytest.mark.parametrize("value", ["", "  ", "sk-0123\n456789", "schlüssel-0123"])
def test_a_variable_that_holds_no_key_is_named_and_not_shown(value: str) -> None:
    with pytest.raises(SpecbenchError, match="the variable KEY is not set") as raised:
        access_to(REMOTE, config(api_key_env="KEY"), {"KEY": value})
    assert not value.strip() or value not in str(raised.value)


def test_proxies_are_for_others_never_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://me:pass-0123456789@proxy.example.com:3128")
    assert access_to(LOCAL, config(), {}).proxy is None
    access = access_to(REMOTE, config(), {})
    assert access.proxy is not None
    assert "pass-0123456789" in access.secrets
    monkeypatch.setenv("no_proxy", "example.com")
    assert access_to(REMOTE, config(), {}).proxy is None


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of our own for 127.0.0.1, with its key in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate, and is not here")
    subject = ("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "ca.pem"))
    new = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    subprocess.run([*new, *subject, *made], check=True, capture_output=True)
    return tmp_path / "ca.pem"


async def test_certificates_are_checked_and_an_authority_of_ones_own_is_trusted(certificate: Path) -> None:
    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m", "owned_by": "vllm"}]})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    app = web.Application()
    app.router.add_get("/v1/models", models)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    url = f"https://127.0.0.1:{server.port}"
    try:
        with pytest.raises(SpecbenchError, match="--ca-file FILE"):
            await gather(url, DIRECT)
        assert (await gather(url, Access(ca_file=certificate))).owners == {"vllm"}
    finally:
        await server.close()


@asynccontextmanager
async def hanging_up(events: list[dict[str, Any]]) -> AsyncIterator[str]:
    """A server that promises to keep connections, and ends each after its first answer, as llama.cpp's does."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = [int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length")]
        await reader.readexactly(length)
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nKeep-Alive: timeout=5, max=100\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_llama_cpp_gets_a_connection_for_each_request_and_tells_acceptance() -> None:
    events = [
        {"choices": [{"index": 0, "delta": {"content": "1 2 3 4 5 6"}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]},
        {
            "choices": [],
            "usage": {"prompt_tokens": 3, "completion_tokens": 6},
            "timings": {"predicted_n": 6, "draft_n": 5, "draft_n_accepted": 3},
        },
    ]
    async with hanging_up(events) as url, StreamingClient(url, "m", dialect=LLAMA_CPP) as client:
        traces = [await client.generate(RequestSpec(i, str(i), 6, prompt="1")) for i in range(20)]
    assert [trace.error for trace in traces] == [None] * 20
    for trace in traces:
        assert trace.output_tokens == 6
        assert trace.acceptance is not None
        assert (trace.acceptance.steps, trace.acceptance.drafted, trace.acceptance.accepted) == (2, 5, 3)
