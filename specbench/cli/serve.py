"""`specbench serve`: the reference decoder, or the known-truth server, as an OpenAI-compatible server."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import typer

_DRAFTS = ("tree", "suffix_cached_requests", "acceptance")
_OF_DECODER = ("dtype", "quantization", "device", "kernels", "lagged", "verification", "threads", *_DRAFTS)


def serve(
    context: typer.Context,
    target: str = typer.Option("demo", help="The model: demo, a local directory, or a hub id."),
    method: str = typer.Option(
        "none", help="none, ngram, suffix, draft_model, eagle3, eagle, medusa, mtp, layer_skip or ssd."
    ),
    gamma: str = typer.Option(
        "0",
        help="Tokens proposed per step, 0 with method none; a schedule by batch size, schedule:1=4+9=0; or a rule of "
        "the decoder's: adaptive:threshold, adaptive:goodput, adaptive:confidence (docs/gamma.md).",
    ),
    drafter: Optional[str] = typer.Option(None, help="Directory or hub id of the draft model."),  # noqa: UP045
    port: int = typer.Option(8000, min=0, max=65535, help="0 takes a free port and prints it."),
    max_batch_size: int = typer.Option(8, min=1, help="Requests decoded together; more are queued."),
    max_model_len: int = typer.Option(2048, min=2, help="Prompt plus output tokens per request."),
    dtype: str = typer.Option("float32", help="float32 or bfloat16."),
    quantization: Optional[str] = typer.Option(  # noqa: UP045
        None, help="int8 or int4: so many bits for the target's weights, on a CPU."
    ),
    device: str = typer.Option("cpu", help="cpu or cuda."),
    kernels: str = typer.Option(
        "off", help="auto: Triton kernels and CUDA graphs, on GPUs that take them (docs/kernels.md)."
    ),
    lagged: str = typer.Option(
        "off", help="auto: steps on a GPU as a whole, read one step behind, where they can be (docs/kernels.md)."
    ),
    verification: str = typer.Option(
        "rejection",
        help="How sampled drafts are verified: rejection, block (keeps more), coupled (a seed fixes the tokens), or "
        "typical (keeps what is likely enough: outputs are then not the target's).",
    ),
    tree: str = typer.Option(
        "chain", help="How drafts of heads branch, to the depth of --gamma: 8x60, static:4x2x1 (docs/trees.md)."
    ),
    suffix_cached_requests: int = typer.Option(
        0,
        min=0,
        help="With suffix: draft from the last so many responses too. A prompt sent again drafts its own answer, so do "
        "not take that for a measurement.",
    ),
    acceptance: Optional[str] = typer.Option(  # noqa: UP045
        None, help="Made up in the place of verdicts: synthetic:0.8. Outputs are then not the target's."
    ),
    threads: Optional[int] = typer.Option(None, min=1, help="CPU threads; all cores by default."),  # noqa: UP045
    scenario: Optional[Path] = typer.Option(  # noqa: UP045
        None, help="No model: a server that does what this YAML file says (docs/scenarios.md), in an engine's format."
    ),
    truth: Optional[Path] = typer.Option(  # noqa: UP045
        None, help="With --scenario: log every step of every request here, as JSON lines."
    ),
) -> None:
    """Serve a model with the reference speculative decoder over the OpenAI-compatible HTTP API.

    With --scenario no model runs: acceptance, step times, streams and faults come from a file, and --truth logs them.

    Example: specbench serve --target demo --method ngram --gamma 4 --port 0
    """
    import os

    from specbench.backends import get_backend
    from specbench.backends.base import EngineOptions, Launch, check_adaptive
    from specbench.backends.reference import ReferenceBackend
    from specbench.backends.simulated import SimulatedBackend
    from specbench.cli.options import refuse_given
    from specbench.decoder.rates import PREFIX as SYNTHETIC
    from specbench.drafter import resolve_drafter
    from specbench.errors import SpecbenchError
    from specbench.speculation import Speculation
    from specbench.target import resolve_target

    if scenario is not None:
        refuse_given(context, _OF_DECODER, "is the decoder's, and with --scenario none runs: leave it out")
        speculation = Speculation.of(method, gamma, drafter)
        check_adaptive(get_backend("simulated"), speculation)
        launch = Launch(
            target=Path(target),
            target_name=target,
            speculation=speculation,
            max_batch_size=max_batch_size,
            max_model_len=max_model_len,
            options=EngineOptions(scenario=scenario, engine_args=("--truth", str(truth)) if truth else ()),
        )
        command = SimulatedBackend().command(launch)
    elif truth is not None:
        raise SpecbenchError("--truth logs what a scenario's server does: add --scenario FILE.")
    else:
        synthetic = acceptance and acceptance.removeprefix(SYNTHETIC)
        directory = drafter and str(resolve_drafter(method, drafter))
        speculation = Speculation.of(
            method,
            gamma,
            directory,
            synthetic,
            tree,
            typical=verification == "typical",
            cached_requests=suffix_cached_requests,
        )
        ReferenceBackend().check(speculation)
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
                options=EngineOptions(
                    quantization=quantization,
                    engine_args=tuple(
                        f"--{name}={use}" for name, use in (("kernels", kernels), ("lagged", lagged)) if use != "off"
                    ),
                ),
            )
        )
    # Started by hand it may outlive the shell, under nohup say; started by a sweep it must not.
    argv = [part.replace("{port}", str(port)) for part in command.argv if part != "--die-with-parent"]
    os.execve(argv[0], argv, {**os.environ, **command.env})
