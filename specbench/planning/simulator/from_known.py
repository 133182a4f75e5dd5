"""A replica from what a run or the catalogue tells: the fitted engine, the drafter's cost and acceptance, the cache."""

from __future__ import annotations

from dataclasses import replace

from specbench.planning.cells import drafts_at_once
from specbench.planning.fit import Fit
from specbench.planning.simulator.fleet import Acceptance, Replica
from specbench.planning.simulator.policy import read_policy
from specbench.planning.sizing.known import Known
from specbench.planning.sizing.memory import NOT_SAID, cache_tokens


def fitted_replica(fit: Fit, arm: tuple[str, str], drafted_share: float, spread: float) -> Replica:
    """By the best estimate, for workload and method; what an engine is started with is left at its default.

    drafted_share, spread: as in `Replica` and `Acceptance`
    """
    model, theta, (_, method) = fit.model, fit.theta, arm
    first, later, slope = (float(value) for value in model.acceptance(theta, arm))
    return Replica(
        model=model.shape,
        machine=model.machine,
        efficiency=model.engine(theta),
        drafting=model.drafting(theta, method),
        acceptance=Acceptance(first, later, slope, spread),
        at_once=drafts_at_once(method),
        drafted_share=drafted_share,
        # A fit has seen what prompts cost among decoding sequences; of a prior nobody knows chunks.
        chunked=not fit.observations,
    )


def replica_of(
    known: Known,
    policy: str,
    spread: float,
    max_batch_size: int | None = None,
    token_budget: int = 8192,
    kv_tokens: int | None = None,
    block_tokens: int = 16,
    prefix_caching: bool = False,
) -> Replica:
    """policy, spread: as in `Replica` and `Acceptance`; None for what is known already, see `Known`.

    Raises SpecbenchError where the weights leave no room for a cache.
    """
    return replace(
        fitted_replica(known.fit, known.arm, known.drafted_share, spread),
        policy=policy,
        max_batch_size=max_batch_size or known.max_batch_size,
        token_budget=token_budget,
        kv_tokens=kv_tokens or _kv_tokens(known, drafts=read_policy(policy).largest > 0),
        block_tokens=block_tokens,
        prefix_caching=prefix_caching,
    )


def _kv_tokens(known: Known, drafts: bool) -> int:
    if known.kv_tokens is not None:
        return known.kv_tokens[drafts]
    if known.gpu is None:
        return NOT_SAID
    model = known.fit.model
    return cache_tokens(model.shape, known.arm[1] if drafts else "none", known.gpu, model.machine.count)
