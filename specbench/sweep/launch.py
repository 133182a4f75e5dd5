"""From an arm of a sweep to the launch of its server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from specbench.backends.base import Backend, EngineOptions, Launch
from specbench.backends.environments import container_runner, engine_python
from specbench.backends.lossy import synthetic_clause, typical_clause
from specbench.decoder.tree_shape import CHAIN
from specbench.errors import SpecbenchError
from specbench.paths import expand_home
from specbench.speculation import Speculation
from specbench.sweep.config import SweepConfig

_FLAGS = {"kv_cache_bytes": "kv_cache", "engine_args": "engine_arg"}
"""Flags that are not called as their field."""


def make_launch(
    config: SweepConfig,
    speculation: Speculation,
    target: Path,
    drafters: Mapping[str, Path],
    options: EngineOptions,
) -> Launch:
    """The launch that measures `speculation`, with directories in the place of names."""
    drafter = drafters.get(speculation.method)
    return Launch(
        target=target,
        target_name=config.target,
        speculation=replace(speculation, drafter=str(drafter) if drafter else None),
        max_batch_size=max(config.batch_size),
        max_model_len=config.max_model_len,
        dtype=config.dtype,
        device=config.device,
        # Nothing is drafted in a baseline: it is exact whatever was asked for.
        verification="rejection" if speculation.is_plain and config.is_typical else config.verification,
        threads=config.threads,
        methods=config.method,
        matched=config.baseline != "as-deployed" and not speculation.as_deployed,
        options=options,
    )


def check_options(config: SweepConfig, backend: Backend) -> EngineOptions:
    """The options for the engine as given. Raises SpecbenchError for one that the backend would not heed."""
    options, default = config.engine_options(), EngineOptions()
    for field in fields(options):
        if getattr(options, field.name) != getattr(default, field.name) and field.name not in backend.options:
            flag = _FLAGS.get(field.name, field.name).replace("_", "-")
            raise SpecbenchError(f"--{flag} means nothing to the {backend.name} backend. Leave it out.")
    if config.acceptance is not None and "acceptance" not in backend.options:
        raise SpecbenchError(f"--acceptance means nothing to the {backend.name} backend. Leave it out.")
    if config.tree != (CHAIN,) and "tree" not in backend.options:
        raise SpecbenchError(
            f"--tree is of the reference decoder's drafts, and the {backend.name} backend drafts as its engine does. "
            "Leave it out."
        )
    if config.remembers and "suffix_cached_requests" not in backend.options:
        raise SpecbenchError(
            f"--suffix-cached-requests is for the reference and vllm backends; the {backend.name} backend cannot be "
            "told how much to remember. Leave it out, or see what a memory brings to recorded responses: "
            "specbench profile --suffix-cached-requests."
        )
    return options


def locate_engine(options: EngineOptions, backend: Backend, device: str) -> EngineOptions:
    """The options with the environment or the container runner that is really there. Raises SpecbenchError."""
    if options.container is not None:
        return replace(options, container=replace(options.container, runner=container_runner()))
    if "python" not in backend.options:
        return options
    if options.python is None:
        return replace(options, python=engine_python(backend.name, device))
    python = expand_home(options.python)
    if not python.is_file():
        raise SpecbenchError(f"--python {options.python}: there is no such interpreter.")
    return replace(options, python=python.absolute())


def refuse_lossy(clauses: Sequence[str], config: SweepConfig) -> None:
    """Raises SpecbenchError for settings under which outputs are not the target's own, unless they were asked for."""
    asked = {synthetic_clause(config.acceptance), *([typical_clause()] if config.is_typical else ())}
    refused = [clause for clause in dict.fromkeys(clauses) if clause not in asked]
    if refused and not config.allow_lossy:
        raise SpecbenchError(
            f"this would not measure the target's own outputs: {'; '.join(refused)}. Take the setting "
            "out, or pass --allow-lossy to measure it all the same, named in the report."
        )
