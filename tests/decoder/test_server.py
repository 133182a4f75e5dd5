"""The server as a process: it says when it is ready, serves, and goes when it is told to or its parent has gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.request import Request, urlopen

import pytest

from specbench.decoder import server as decoder_server

SERVER = [sys.executable, "-m", "specbench.decoder.server"]
PATIENCE = 60
"""Seconds until a test that waits for a process gives up."""


def url_of(stdout: IO[str]) -> str:
    line = stdout.readline()
    assert line.startswith("listening on http://127.0.0.1:"), line
    return line.removeprefix("listening on ").strip()


@contextmanager
def server(target: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    argv = [*SERVER, "--target", str(target), "--max-model-len", "64", "--threads", "1", *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, url_of(process.stdout)
        finally:
            process.kill()


def ask(url: str, **body: Any) -> Any:
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_it_serves_what_was_asked_for_and_ends_on_sigterm_in_the_middle_of_work(target: Path) -> None:
    options = ["--method", "ngram", "--gamma", "2", "--served-model-name", "tiny", "--verification", "coupled"]
    with server(target, *options) as (process, url):
        with urlopen(f"{url}/health", timeout=PATIENCE) as health:
            assert health.status == 200
        with urlopen(f"{url}/server_info", timeout=PATIENCE) as answer:
            info = json.load(answer)
        expected = {"method": "ngram", "gamma": 2, "verification": "coupled", "device": "cpu", "dtype": "float32"}
        assert info["kernels"] is False
        assert info | expected | {"max_model_len": 64, "max_batch_size": 8, "threads": 1} == info
        chat = ask(f"{url}/v1/chat/completions", messages=[{"role": "user", "content": "hi"}], max_tokens=5)
        assert chat["model"] == "tiny"
        assert 1 <= chat["usage"]["completion_tokens"] <= 5
        body = json.dumps({"prompt": "x", "max_tokens": 60, "stream": True, "ignore_eos": True}).encode()
        request = Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=PATIENCE) as stream:
            stream.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=PATIENCE) == 0


def test_it_dies_with_its_parent(target: Path) -> None:
    start = "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); time.sleep(600)"
    argv = [sys.executable, "-c", start, *SERVER, "--target", str(target), "--max-model-len", "64", "--die-with-parent"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            url_of(parent.stdout)
            parent.kill()
            deadline = time.monotonic() + PATIENCE
            while is_running(child) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not is_running(child)
        finally:
            if is_running(child):
                os.kill(child, signal.SIGKILL)


def test_it_ends_when_its_parent_had_gone_before_it_could_look(target: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    argv = [*SERVER, "--target", str(target), "--die-with-parent"]
    env = os.environ | {"SPECBENCH_PARENT": str(gone.pid)}
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False, env=env)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the parent process has gone" in ended.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "nowhere"], "nowhere has no config.json"),
        (["--target", "{target}", "--method", "draft_model", "--gamma", "2"], "needs the directory of a draft model"),
        (["--target", "{target}", "--max-model-len", "9999"], "must be 2..256"),
        (["--target", "{target}", "--threads", "100000"], "threads must be 1..1024; got 100000"),
    ],
)
def test_settings_that_do_not_fit_are_one_sentence(target: Path, options: list[str], words: str) -> None:
    argv = [*SERVER, *(option.format(target=target) for option in options)]
    failed = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert words in failed.stderr
    assert "Traceback" not in failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1


def test_an_interrupt_while_the_model_loads_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(make_engine: Any) -> None:
        raise KeyboardInterrupt

    codes: list[int] = []
    monkeypatch.setattr(sys, "argv", ["server", "--target", "nowhere"])
    monkeypatch.setattr(decoder_server, "Worker", interrupted)
    monkeypatch.setattr(os, "_exit", codes.append)
    decoder_server.main()
    assert codes == [130]
    assert capsys.readouterr().err == "specbench.decoder.server: stopped before the model was loaded.\n"
