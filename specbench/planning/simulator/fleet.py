"""What is simulated: a replica, how many of them there are, what spreads requests over them, how they fail."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.errors import SpecbenchError
from specbench.planning.machine import Machine
from specbench.planning.performance import Drafting, Efficiency
from specbench.planning.shape import ModelShape
from specbench.planning.simulator.policy import read_policy

ROUTERS = ("round-robin", "random", "shortest-queue", "prefix-affinity")
"""prefix-affinity sends a session's requests to one replica; those without a session go in turns."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The hazards of `planning.acceptance`, pooled over steps, and how much requests differ.

    first, later, slope: logits, as in `planning.acceptance.hazards`
    spread: standard deviation over requests of what is added to all logits of a request; pooled rates stay the same
    """

    first: float
    later: float
    slope: float = 0.0
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Replica:
    """One server of the model.

    efficiency, drafting: single values, no draws;  drafting, acceptance: None where nothing is ever drafted
    policy: what sets gamma, as in `policy.POLICIES`
    at_once: whether a longer draft takes no further pass of the drafter (n-gram, suffix, Medusa)
    drafted_share: of gamma tokens, how many a step really proposes: 1 but for lookups that find nothing at times
    max_batch_size: sequences at once;  token_budget: tokens of one pass, those that decode first, prompts from the rest
    kv_tokens: tokens that the cache holds, in blocks of block_tokens
    chunked: prompts are read in the passes that decode (vLLM's way) and cost what they add to one; False: they take
        what a pass of theirs would, as `specbench fit` describes it, whose factor on prefills then knows of chunks
    prefix_caching: whether the turns of a session that come to the same replica find their prefix there
    """

    model: ModelShape
    machine: Machine
    efficiency: Efficiency
    drafting: Drafting | None = None
    acceptance: Acceptance | None = None
    policy: str = "none"
    max_batch_size: int = 256
    token_budget: int = 8192
    kv_tokens: int = 400_000
    block_tokens: int = 16
    at_once: bool = False
    drafted_share: float = 1.0
    chunked: bool = False
    prefix_caching: bool = False

    def __post_init__(self) -> None:
        """Raises SpecbenchError for settings that no engine would start with."""
        largest = read_policy(self.policy).largest
        if largest and (self.drafting is None or self.acceptance is None):
            raise SpecbenchError(
                f"policy {self.policy} drafts, and nothing is known of the drafter: give its cost and acceptance, or "
                "the policy none."
            )
        for name in ("max_batch_size", "token_budget", "kv_tokens", "block_tokens"):
            if getattr(self, name) < 1:
                raise SpecbenchError(f"{name.replace('_', ' ')} must be 1 or more; got {getattr(self, name)}.")
        if self.blocks < 1:
            raise SpecbenchError(
                f"a cache of {self.kv_tokens} tokens does not hold one block of {self.block_tokens} tokens."
            )
        if self.token_budget < (needed := self.max_batch_size * (largest + 1)):
            raise SpecbenchError(
                f"a pass of {self.token_budget} tokens has no room for {self.max_batch_size} sequences that verify "
                f"{largest + 1} tokens each: raise the token budget to {needed}, or lower the batch size or gamma."
            )
        if not 0 < self.drafted_share <= 1:
            raise SpecbenchError(f"the drafted share must be above 0 and at most 1; got {self.drafted_share:g}.")

    @property
    def blocks(self) -> int:
        return self.kv_tokens // self.block_tokens


@dataclass(frozen=True, slots=True)
class Failures:
    """Each replica by itself; both times are exponential. What it was doing is redone by others.

    time_between: mean seconds from one repair to the next failure;  repair: mean seconds that it is away
    """

    time_between: float
    repair: float

    def __post_init__(self) -> None:
        if not (self.time_between > 0 and self.repair > 0):
            raise SpecbenchError("failures need a mean time between them and a mean time of repair, both above 0.")


@dataclass(frozen=True, slots=True)
class Fleet:
    """Like replicas behind one router, one of ROUTERS."""

    replica: Replica
    replicas: int = 1
    router: str = "shortest-queue"
    failures: Failures | None = None

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise SpecbenchError(f"a fleet has 1 replica or more; got {self.replicas}.")
        if self.router not in ROUTERS:
            raise SpecbenchError(f"no router {self.router!r}. There are: {', '.join(ROUTERS)}.")
