"""A `docker` without containers: `docker run … image command` runs the command here, which sees what a container would.

Of the host that is the published port, the mounted directories and the variables that were passed. It outlives the
client that started it, as a container does, until its first process ends or `docker rm --force` (stop, kill) ends it.
`docker inspect` tells that process.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
IMAGES = {"tensorrt-llm": "trtllm-serve", "sglang": "sglang"}
"""What is in an image, by a part of its name -> the program that runs there."""


def main(words: list[str]) -> int:
    match words:
        case ["run", *rest]:
            return _run(rest)
        case ["rm", "--force", name] | ["rm", "-f", name] | ["stop", name] | ["kill", name]:
            return _end(name)
        case ["inspect", "--format", "{{.State.Pid}}", name] if _file(name).exists():
            print(_file(name).read_text())
            return 0
    print(f"docker: '{' '.join(words)}' is not a docker command here.", file=sys.stderr)
    return 1


def _run(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="docker run", allow_abbrev=False)
    for flag in ("--rm", "--init"):
        parser.add_argument(flag, action="store_true")
    for flag in ("--name", "--gpus", "--ipc", "--entrypoint"):
        parser.add_argument(flag)
    for flag in ("--publish", "--volume", "--env", "--ulimit"):
        parser.add_argument(flag, action="append", default=[])
    parser.add_argument("image")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    held = next((program for part, program in IMAGES.items() if part in given.image), None)
    if held is None:
        print(f"Unable to find image '{given.image}' locally\nmanifest unknown", file=sys.stderr)
        return 125
    if given.entrypoint == "trtllm-serve":  # without the image's own entry point its libraries are not on the path
        print("ImportError: libnvonnxparser.so.10: cannot open shared object file", file=sys.stderr)
        return 1
    command = [*([given.entrypoint] if given.entrypoint else []), *given.command]
    if unseen := _unseen(command, given.volume):
        print(f"FileNotFoundError: [Errno 2] No such file or directory: '{unseen}'", file=sys.stderr)
        return 1
    address, outside, inside = given.publish[0].split(":")
    seen_as = {("--port", inside): outside, ("--host", "0.0.0.0"): address}
    arguments = [seen_as.get(pair, pair[1]) for pair in pairwise(command)]
    program = {"python3": [sys.executable]}.get(command[0], [sys.executable, str(HERE / f"{_module(held)}.py")])
    named = {name: os.environ[name] for name in given.env if name in os.environ}
    variables = named | dict(variable.split("=", 1) for variable in given.env if "=" in variable)
    kept = {name: os.environ[name] for name in ("PATH", "SPECBENCH_CONTRACT") if name in os.environ}
    return _until_it_ends(given.name, [*program, *arguments], {**kept, **variables})


def _until_it_ends(name: str, argv: list[str], env: dict[str, str]) -> int:
    process = subprocess.Popen(argv, env=env, start_new_session=True)
    _file(name).write_text(str(process.pid))
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    code = process.wait()
    _end(name)
    return code if code >= 0 else 128 - code


def _end(name: str) -> int:
    """With its first process all others of a container end."""
    try:
        group = int(_file(name).read_text())
    except FileNotFoundError:
        print(f"Error response from daemon: No such container: {name}", file=sys.stderr)
        return 1
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    _file(name).unlink(missing_ok=True)
    return 0


def _file(name: str) -> Path:
    folder = Path(os.environ.get("SPECBENCH_CONTRACT", tempfile.gettempdir() + "/contract")).parent / "containers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _unseen(command: list[str], volumes: list[str]) -> str | None:
    """The first path among the arguments that no volume holds."""
    seen = [Path(volume.split(":")[1]) for volume in volumes]
    paths = [Path(word) for word in command if word.startswith("/")]
    return next((str(path) for path in paths if not any(path.is_relative_to(folder) for folder in seen)), None)


def _module(program: str) -> str:
    return {"trtllm-serve": "trtllm_server", "sglang": "sglang_server"}[program]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
