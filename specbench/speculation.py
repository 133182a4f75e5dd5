"""Speculation: the one description of a method that every backend translates into its own flags."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.decoder.policies import ADAPTIVE, parse
from specbench.decoder.tree_shape import CHAIN, parse_tree
from specbench.errors import SpecbenchError
from specbench.schedule import PREFIX, Schedule

DRAFTERLESS = ("none", "ngram", "suffix", "mtp", "layer_skip")
"""Methods that need no weights besides the target's."""

OWN_HEAD = ("mtp",)
"""Of these, methods whose weights the target brings. The reference decoder can be given others."""

METHODS = ("none", "ngram", "suffix", "draft_model", "eagle3", "eagle", "medusa", "mtp", "layer_skip", "ssd")

OWN = ("layer_skip", "ssd")
"""Of these, the reference decoder's alone."""

UNKNOWN = "unknown"
"""The method of a server that specbench did not start and that does not tell."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """What proposes tokens, and how many.

    method:  one of METHODS: `none` is the baseline; `ngram` and `suffix` look drafts up in text; `draft_model` is a
        smaller model, and `ssd` one that prepares its next drafts while the target verifies; `eagle3`, `eagle` and
        `medusa` are heads on the target; `mtp` is one that the target brings, if none is given; `layer_skip` is the
        target without some of its layers
    gamma:   tokens proposed per step; 0 exactly when the method is `none`
    drafter: directory or hub id of the drafter's weights; None for methods that have none
    as_deployed: plain decoding with the engine's own defaults, measured beside the matched baseline
    again:   the baseline measured a second time, as if it were a method: how far its speedup is from 1 is noise
    schedule: gamma by batch size, as `Schedule.parse` reads it; `gamma` is then its largest. None: the same at all
    adaptive: the rule that sets gamma at every step, such as `threshold+max=5` (specbench.decoder.policies); `gamma` is
        then the most that it asks for
    synthetic: rates at which acceptance is made up, `0.8` or `0.9,0.7,0.5`: the work of speculation without its verdict
    tree: how drafts branch, `8x60` or `static:4x2x1` (specbench.decoder.tree_shape), gamma being their depth; None for
        chains
    typical: drafted tokens are kept that are likely enough (typical acceptance): outputs are not the target's
    cached_requests: earlier responses that suffix decoding may draft from; 0 for the request's own text alone
    attached: what a server does that specbench did not start: its drafter is not named, its method may be UNKNOWN, and
        its gamma is 0 where neither it nor the user says
    """

    method: str = "none"
    gamma: int = 0
    drafter: str | None = None
    as_deployed: bool = False
    again: bool = False
    schedule: str | None = None
    attached: bool = False
    synthetic: str | None = None
    adaptive: str | None = None
    tree: str | None = None
    typical: bool = False
    cached_requests: int = 0

    def __post_init__(self) -> None:
        if self.attached and self.method in (*METHODS[1:], UNKNOWN) and self.gamma >= 0:
            return
        if self.method not in METHODS:
            raise SpecbenchError(f"unknown method {self.method!r}. Choose from: {', '.join(METHODS)}.")
        if self.method == "none" and self.gamma != 0:
            raise SpecbenchError(f"method none proposes nothing, so its gamma must be 0; got {self.gamma}.")
        if self.method != "none" and self.gamma < 1:
            raise SpecbenchError(
                f"gamma must be at least 1 with method {self.method}; got {self.gamma}. "
                "To measure without speculation use method none (it is always measured)."
            )
        if self.method in DRAFTERLESS and self.method not in OWN_HEAD and self.drafter is not None:
            raise SpecbenchError(f"method {self.method} takes no drafter; got {self.drafter!r}. Leave --drafter out.")
        if self.method not in DRAFTERLESS and self.drafter is None:
            raise SpecbenchError(f"method {self.method} needs a drafter: --drafter {self.method}=DIRECTORY.")
        if self.schedule is not None and Schedule.parse(self.schedule).largest != self.gamma:
            raise SpecbenchError(f"the largest gamma of {self.schedule} is not {self.gamma}.")
        if self.adaptive is not None and _largest(ADAPTIVE + self.adaptive) != self.gamma:
            raise SpecbenchError(f"the largest gamma of {self.adaptive} is not {self.gamma}.")
        if self.tree is not None:
            _check_tree(self.tree)
        if self.cached_requests and self.method != "suffix":
            raise SpecbenchError(
                f"method {self.method} keeps no earlier responses, suffix does: leave --suffix-cached-requests out."
            )

    @classmethod
    def of(
        cls,
        method: str,
        gamma: int | str,
        drafter: str | None = None,
        synthetic: str | None = None,
        tree: str = CHAIN,
        *,
        typical: bool = False,
        cached_requests: int = 0,
    ) -> Speculation:
        """With gamma and tree as the command line has them: `4`, `schedule:1=4+9=0` or `adaptive:threshold`; `chain`,
        `8x60` or `static:4x2x1`.

        Raises SpecbenchError for what is none of them.
        """
        most, text = _largest(gamma), str(gamma)
        schedule = str(Schedule.parse(text)) if text.startswith(PREFIX) else None
        adaptive = str(parse(text)).removeprefix(ADAPTIVE) if text.startswith(ADAPTIVE) else None
        return cls(
            method,
            most,
            drafter,
            schedule=schedule,
            synthetic=synthetic,
            adaptive=adaptive,
            tree=None if tree == CHAIN else tree,
            typical=typical,
            cached_requests=cached_requests,
        )

    @classmethod
    def scheduled(cls, method: str, schedule: Schedule, drafter: str | None = None) -> Speculation:
        return cls(method, schedule.largest, drafter, schedule=str(schedule))

    @property
    def name(self) -> str:
        """The method; `ngram-schedule` where its gamma follows the batch size, `ngram-threshold` where a rule of that
        name sets it: other arms than any fixed gamma; `eagle3-8x60` and `eagle3-static-4x2` where drafts branch;
        `suffix-warm-32` where it drafts from 32 earlier responses; `ngram-synthetic` where its acceptance is made up,
        `medusa-typical` where it is not exact.
        """
        rule = "schedule" if self.schedule else (self.adaptive or "").partition("+")[0]
        return f"{self.method}{rule and f'-{rule}'}{self._kind}"

    @property
    def _kind(self) -> str:
        """What tells an arm from others of its method and gamma, in its name and in its label."""
        tree = f"-{self.tree.replace(':', '-')}" if self.tree else ""
        warm = f"-warm-{self.cached_requests}" if self.cached_requests else ""
        return f"{tree}{warm}{'-synthetic' * bool(self.synthetic)}{'-typical' * self.typical}"

    @property
    def is_lossy(self) -> bool:
        """Whether it was asked for that outputs are not the target's own."""
        return self.synthetic is not None or self.typical

    @property
    def policy(self) -> str | None:
        """What sets gamma, as the command line has it; None where it stays."""
        if self.schedule is not None:
            return PREFIX + self.schedule
        return None if self.adaptive is None else ADAPTIVE + self.adaptive

    def gamma_at(self, batch_size: int) -> int:
        """Tokens proposed per step while so many requests run; 0 where nothing is."""
        return self.gamma if self.schedule is None else Schedule.parse(self.schedule).at(batch_size)

    @property
    def is_baseline(self) -> bool:
        """Whether others are measured against it."""
        return self.is_plain and not self.as_deployed and not self.again

    @property
    def is_plain(self) -> bool:
        return self.method == "none"

    @property
    def label(self) -> str:
        """Short name in file names: `none`, `none-as-deployed`, `none-again`, `ngram-g4`, `ngram-g1=4+5=2+9=0`,
        `ngram-threshold+max=5`, `ngram-g4-synthetic`, `eagle3-g5-8x60`, `suffix-g4-warm-32`.
        """
        if self.is_plain:
            return "none-as-deployed" if self.as_deployed else "none-again" if self.again else "none"
        gamma = f"-{self.adaptive}" if self.adaptive else f"-g{self.schedule or self.gamma}" if self.gamma else ""
        return f"{self.method}{gamma}{self._kind}"


def _largest(gamma: int | str) -> int:
    try:
        return parse(gamma).largest
    except ValueError as error:
        raise SpecbenchError(str(error)) from None


def _check_tree(tree: str) -> None:
    try:
        parse_tree(tree)
    except ValueError as error:
        raise SpecbenchError(f"tree {tree!r}: {error}.") from None


BASELINE = Speculation()
AS_DEPLOYED = Speculation(as_deployed=True)
AGAIN = Speculation(again=True)
