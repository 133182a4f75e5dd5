"""Speculation: the one description of a method that every backend translates into its own flags."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.errors import SpecbenchError

DRAFTERLESS = ("none", "ngram", "suffix", "mtp")
"""Methods that need no weights besides the target's."""

METHODS = ("none", "ngram", "suffix", "draft_model", "eagle3", "eagle", "medusa", "mtp")


@dataclass(frozen=True, slots=True)
class Speculation:
    """What proposes tokens, and how many.

    method:  one of METHODS: `none` is the baseline; `ngram` and `suffix` look drafts up in text; `draft_model` is a
        smaller model; `eagle3`, `eagle` and `medusa` are heads on the target; `mtp` is one that the target brings
    gamma:   tokens proposed per step; 0 exactly when the method is `none`
    drafter: directory or hub id of the drafter's weights; None for methods that have none
    as_deployed: plain decoding with the engine's own defaults, measured beside the matched baseline
    again:   the baseline measured a second time, as if it were a method: how far its speedup is from 1 is noise
    """

    method: str = "none"
    gamma: int = 0
    drafter: str | None = None
    as_deployed: bool = False
    again: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise SpecbenchError(f"unknown method {self.method!r}. Choose from: {', '.join(METHODS)}.")
        if self.method == "none" and self.gamma != 0:
            raise SpecbenchError(f"method none proposes nothing, so its gamma must be 0; got {self.gamma}.")
        if self.method != "none" and self.gamma < 1:
            raise SpecbenchError(
                f"gamma must be at least 1 with method {self.method}; got {self.gamma}. "
                "To measure without speculation use method none (it is always measured)."
            )
        if self.method in DRAFTERLESS and self.drafter is not None:
            raise SpecbenchError(f"method {self.method} takes no drafter; got {self.drafter!r}. Leave --drafter out.")
        if self.method not in DRAFTERLESS and self.drafter is None:
            raise SpecbenchError(f"method {self.method} needs a drafter: --drafter {self.method}=DIRECTORY.")

    @property
    def is_baseline(self) -> bool:
        """Whether others are measured against it."""
        return self.is_plain and not self.as_deployed and not self.again

    @property
    def is_plain(self) -> bool:
        return self.method == "none"

    @property
    def label(self) -> str:
        """Short name in tables and file names: `none`, `none-as-deployed`, `none-again`, `ngram-g4`."""
        if self.is_plain:
            return "none-as-deployed" if self.as_deployed else "none-again" if self.again else "none"
        return f"{self.method}-g{self.gamma}"


BASELINE = Speculation()
AS_DEPLOYED = Speculation(as_deployed=True)
AGAIN = Speculation(again=True)
