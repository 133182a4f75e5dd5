"""A replica from what a run or the catalogue tells: the fitted engine, the drafter's cost and acceptance, the cache."""

from __future__ import annotations

from specbench.errors import SpecbenchError
from specbench.planning.cells import AT_ONCE
from specbench.planning.simulator.fleet import Acceptance, Replica
from specbench.planning.simulator.policy import read_policy
from specbench.planning.sizing.known import Known
from specbench.planning.sizing.memory import drafter_size, kv_tokens

_NOT_SAID = 10**8
"""Tokens of a cache of unknown size: never the limit."""


def replica_of(
    known: Known,
    policy: str,
    spread: float,
    max_batch_size: int | None = None,
    token_budget: int = 8192,
    cache_tokens: int | None = None,
    block_tokens: int = 16,
    prefix_caching: bool = False,
) -> Replica:
    """policy, spread: as in `Replica` and `Acceptance`; None for what is known already, see `Known`.

    Raises SpecbenchError where the weights leave no room for a cache.
    """
    model, theta, (_, method) = known.fit.model, known.fit.theta, known.arm
    first, later, slope = (float(value) for value in model.acceptance(theta, known.arm))
    drafts = read_policy(policy).largest > 0
    return Replica(
        model=model.shape,
        machine=model.machine,
        efficiency=model.engine(theta),
        drafting=model.drafting(theta, method),
        acceptance=Acceptance(first, later, slope, spread),
        policy=policy,
        max_batch_size=max_batch_size or known.max_batch_size,
        token_budget=token_budget,
        kv_tokens=cache_tokens or _cache_tokens(known, drafts),
        block_tokens=block_tokens,
        at_once=method in AT_ONCE,
        drafted_share=known.drafted_share,
        # Of a prior nobody knows chunks; a fit has seen what prompts cost among decoding sequences.
        chunked=not known.is_measured,
        prefix_caching=prefix_caching,
    )


def _cache_tokens(known: Known, drafts: bool) -> int:
    model = known.fit.model
    if known.kv_tokens is not None:
        return known.kv_tokens[drafts]
    if known.gpu is None:
        return _NOT_SAID
    drafter = drafter_size(known.arm[1] if drafts else "none", model.shape)
    tokens = kv_tokens(model.shape, drafter, known.gpu.memory, model.machine.count)
    if tokens < 1:
        raise SpecbenchError(
            f"the weights leave no room for a cache on {model.machine.count} × {known.gpu.name}: more GPUs to a "
            "replica (--gpu-count), or fewer bits (--dtype fp8)."
        )
    return tokens
