"""`specbench serve`: the reference decoder as an OpenAI-compatible server."""

from __future__ import annotations

from typing import Optional

import typer


def serve(
    target: str = typer.Option("demo", help="The model: demo, a local directory, or a hub id."),
    method: str = typer.Option("none", help="none, ngram, draft_model or eagle3."),
    gamma: int = typer.Option(0, min=0, help="Tokens proposed per step; 0 with method none."),
    drafter: Optional[str] = typer.Option(None, help="Directory or hub id of the draft model."),  # noqa: UP045
    port: int = typer.Option(8000, min=0, max=65535, help="0 takes a free port and prints it."),
    max_batch_size: int = typer.Option(8, min=1, help="Requests decoded together; more are queued."),
    max_model_len: int = typer.Option(2048, min=2, help="Prompt plus output tokens per request."),
    dtype: str = typer.Option("float32", help="float32 or bfloat16."),
    device: str = typer.Option("cpu", help="cpu or cuda."),
    verification: str = typer.Option(
        "rejection", help="How sampled drafts are verified: rejection, or coupled (a seed fixes the tokens)."
    ),
    threads: Optional[int] = typer.Option(None, min=1, help="CPU threads; all cores by default."),  # noqa: UP045
) -> None:
    """Serve a model with the reference speculative decoder over the OpenAI-compatible HTTP API.

    Example: specbench serve --target demo --method ngram --gamma 4 --port 0
    """
    import os

    from specbench.backends.base import Launch
    from specbench.backends.reference import ReferenceBackend
    from specbench.drafter import resolve_drafter
    from specbench.speculation import Speculation
    from specbench.target import resolve_target

    speculation = Speculation(method, gamma, drafter and str(resolve_drafter(method, drafter)))
    command = ReferenceBackend().command(
        Launch(
            target=resolve_target(target),
            target_name=target,
            speculation=speculation,
            max_batch_size=max_batch_size,
            max_model_len=max_model_len,
            dtype=dtype,
            device=device,
            verification=verification,
            threads=threads,
        )
    )
    # Started by hand it may outlive the shell, under nohup say; started by a sweep it must not.
    argv = [part.replace("{port}", str(port)) for part in command.argv if part != "--die-with-parent"]
    os.execve(argv[0], argv, {**os.environ, **command.env})
