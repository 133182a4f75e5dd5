"""A server in a container: the runner's command line, for docker and podman."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from specbench.backends.base import Command, Container, Launch

PORT = "8000"
"""Where the server listens inside; outside it is the launcher's port, on the loopback device alone."""


def model_mounts(launch: Launch) -> list[Path]:
    """The directories of target and drafter; models that are named by their id on the hub have none."""
    models = (launch.target, *([Path(drafter)] if (drafter := launch.speculation.drafter) else []))
    return [model for model in models if model.is_absolute()]


def in_container(
    container: Container,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    mounts: Iterable[Path],
    gpus: bool,
    files: Mapping[str, str] | None = None,
    own_entrypoint: bool = False,
    flags: Sequence[str] = (),
) -> Command:
    """Run `argv` (program first) in a container that sees the model directories read-only under their own paths.

    The server must listen on 0.0.0.0:PORT. The container is named after the launcher's port, so that it is found and
    removed even when the runner was killed.

    files: as in `Command`; to be seen inside, `{files}` has to be among the mounts
    own_entrypoint: the image's entry point runs `argv`, rather than being replaced by it
    flags: for the runner, besides
    """
    name = "specbench-{port}"
    gpu_flags = {"docker": ("--gpus", "all"), "podman": ("--device", "nvidia.com/gpu=all")}[container.runner]
    return Command(
        (
            *(container.runner, "run", "--rm", "--init", "--name", name),
            # The variable without a value: as it is here, where it is set.
            *((*gpu_flags, "--env", "CUDA_VISIBLE_DEVICES") if gpus else ()),
            # Engines' workers pass tensors through shared memory, of which a container has 64 MB by default.
            "--ipc=host",
            *("--publish", f"127.0.0.1:{{port}}:{PORT}"),
            *(part for path in dict.fromkeys(map(_mounted, mounts)) for part in ("--volume", f"{path}:{path}:ro")),
            *(part for key, value in env.items() for part in ("--env", f"{key}={value}")),
            *flags,
            *((container.image, *argv) if own_entrypoint else ("--entrypoint", argv[0], container.image, *argv[1:])),
        ),
        files=files or {},
        cleanup=(container.runner, "rm", "--force", name),
        tell_pid=(container.runner, "inspect", "--format", "{{.State.Pid}}", name),
    )


def _mounted(model: Path) -> Path:
    """A snapshot in the hub's cache holds links to blobs beside it, so the whole repository is mounted."""
    return model.parents[1] if model.parent.name == "snapshots" else model
