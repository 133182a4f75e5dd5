"""What a profiled method is."""

from __future__ import annotations

from typing import Protocol

from specbench.profile.offsets import DraftTable, Transcript


class Profiler(Protocol):
    """A drafter that says what it would have proposed everywhere in a finished response.

    method: the drafter's, as on the command line
    """

    method: str

    def table(self, transcript: Transcript, gamma: int) -> DraftTable:
        """For every position and every number of tokens up to gamma. Called for each transcript once, in order."""
