from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import huggingface_hub
import pytest

from specbench.errors import SpecbenchError
from specbench.target import resolve_target


def test_demo_is_the_embedded_default(demo_target):
    assert resolve_target("demo") == demo_target


def test_a_directory_is_itself_wherever_the_server_runs(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert resolve_target("model") == resolve_target("./model") == tmp_path / "model"


def test_a_directory_without_config_is_no_model(tmp_path):
    with pytest.raises(SpecbenchError, match="not a model directory: it has no config"):
        resolve_target(str(tmp_path))


def test_a_file_is_no_model(tmp_path):
    (tmp_path / "model.gguf").touch()
    with pytest.raises(SpecbenchError, match="is a file, not a model"):
        resolve_target(str(tmp_path / "model.gguf"))


@pytest.mark.parametrize("name", ["./nowhere", "/no/where", "~/nowhere", "a/b/c", "two words"])
def test_a_path_that_does_not_exist_is_not_looked_for_on_the_hub(name):
    with pytest.raises(SpecbenchError, match="no model directory"):
        resolve_target(name)


def test_the_home_of_nobody_is_a_sentence():
    with pytest.raises(SpecbenchError, match="there is no home directory ~nouser"):
        resolve_target("~nouser/model")


def test_a_hub_id_gives_the_directory_of_its_snapshot(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, allow_patterns: str(tmp_path / name))
    assert resolve_target("org/model") == tmp_path / "org" / "model"


@pytest.mark.parametrize(
    ("weights", "fetched"),
    [("model.safetensors", ["model.safetensors"]), ("pytorch_model.bin", ["pytorch_model.bin"]), ("a.pt", ["a.pt"])],
)
def test_weights_of_the_older_kind_are_fetched_where_there_are_no_others(tmp_path, monkeypatch, weights, fetched):
    stored = ["config.json", weights, *(["consolidated.bin"] if weights.endswith(".safetensors") else [])]

    def download(name: str, allow_patterns: list[str]) -> str:
        for file in stored:
            if any(fnmatch(file, pattern) for pattern in allow_patterns):
                (tmp_path / file).touch()
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    found = {file.name for file in resolve_target("org/head").iterdir()}
    assert found == {"config.json", *fetched}


class _Hub(BaseHTTPRequestHandler):
    """Answers as the hub does for a repository that is not there, and for one whose licence must be accepted."""

    def do_GET(self) -> None:
        status, code = (403, "GatedRepo") if "gated" in self.path else (404, "RepoNotFound")
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _ask(endpoint: str, name: str, cache: Path) -> str:
    script = (
        "from specbench.errors import SpecbenchError; from specbench.target import resolve_target\n"
        f"try: resolve_target({name!r})\nexcept SpecbenchError as error: print(error)"
    )
    # A process of its own, since the hub's client reads its address once, at import.
    env = os.environ | {"HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "NO_PROXY": "127.0.0.1"}
    return subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True).stdout


def test_a_hub_id_that_does_not_exist_is_said_to_be_neither_directory_nor_public_model(hub, tmp_path):
    assert _ask(hub, "org/modle", tmp_path).startswith("no model 'org/modle': neither a directory here nor a public")


def test_a_gated_model_is_explained(hub, tmp_path):
    assert "is gated: accept its licence" in _ask(hub, "org/gated", tmp_path)


def test_a_hub_that_cannot_be_reached_points_to_a_local_directory(tmp_path):
    said = _ask("http://127.0.0.1:9", "org/model", tmp_path)
    assert said.startswith("cannot fetch org/model from the hub")
    assert said.endswith("Check the network, or give a local directory.\n")
