"""The threshold rule: a session whose drafts are mostly accepted drafts more, one whose drafts are not stops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from specbench.decoder.policies.base import Step, rungs, written

EVIDENCE = 16
"""Drafted tokens that a session must have seen since its last change before the next one."""

MEMORY = 8
"""Steps over which acceptance is averaged, exponentially."""

START = 3
"""Where a session begins, or on the rung below."""

FIRST_PAUSE, LONGEST_PAUSE = 16, 128
"""Steps of a suspended session until it tries a draft of one token. Each failure doubles them."""

RESUME_AFTER = 4
"""Such tokens accepted in a row that end the suspension."""

DEFINITIONS = ("conditional", "drafted")


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """max: the top rung · above, below: acceptance beyond which gamma goes up a rung, and under which the session is
    suspended; between them it holds

    on: what acceptance is. `conditional`: accepted / (accepted + rejections), the chance of a token that was judged,
        which does not depend on gamma for a uniform drafter. `drafted`: accepted / drafted, what vLLM calls draft
        acceptance rate; it falls with gamma, so that the rule suspends what it has raised.
    """

    max: int = 7
    on: str = "conditional"
    above: float = 0.85
    below: float = 0.7

    def __post_init__(self) -> None:
        if self.on not in DEFINITIONS:
            raise ValueError(f"on is one of {', '.join(DEFINITIONS)}; got {self.on!r}")
        if not 0 <= self.below <= self.above <= 1:
            raise ValueError(f"0 <= below <= above <= 1 must hold; got below={self.below:g} and above={self.above:g}")


@dataclass(slots=True)
class _Session:
    """accepted, judged: averaged · drafted: since the last change · wait: steps until the next probe, None while it
    speculates · pause: what a suspension begins with · probes: accepted in a row · on_trial: resumed, not yet confirmed
    """

    rung: int
    accepted: float = 0.0
    judged: float = 0.0
    drafted: int = 0
    wait: int | None = None
    pause: int = FIRST_PAUSE
    probes: int = 0
    on_trial: bool = False


class ThresholdPolicy:
    """Each session by itself, by its own acceptance; neither the batch nor what a step costs has a say.

    Three things keep it from flapping: the band in which it holds; EVIDENCE between two changes; and a pause that goes
    on doubling until a resumed session has held out for its first EVIDENCE.
    """

    stop_below: float | None = None

    def __init__(self, rule: ThresholdRule) -> None:
        self._rule = rule
        self.largest = rule.max
        self._rungs = rungs(rule.max)
        start = max(index for index, rung in enumerate(self._rungs) if rung <= START)
        self._sessions: defaultdict[Hashable, _Session] = defaultdict(lambda: _Session(start))

    def choose(self, sessions: Sequence[Hashable]) -> list[int]:
        return [self._gamma(self._sessions[session]) for session in sessions]

    def observe(self, step: Step) -> None:
        for name, drafted, accepted in zip(step.sessions, step.drafted, step.accepted, strict=True):
            session = self._sessions[name]
            if session.wait is None:
                self._judge(session, drafted, accepted)
            elif session.wait > 0:
                session.wait -= 1
            elif drafted:  # else nothing was found, or there was no room: it is asked again
                self._probe(session, accepted)

    def forget(self, session: Hashable) -> None:
        self._sessions.pop(session, None)

    def __str__(self) -> str:
        return written("threshold", self._rule)

    def _gamma(self, session: _Session) -> int:
        if session.wait is None:
            return self._rungs[session.rung]
        return 1 if session.wait == 0 else 0

    def _judge(self, session: _Session, drafted: int, accepted: int) -> None:
        if not drafted:
            return
        judged = drafted if self._rule.on == "drafted" else min(accepted + 1, drafted)
        session.accepted += accepted - session.accepted / MEMORY
        session.judged += judged - session.judged / MEMORY
        session.drafted += drafted
        if session.drafted < EVIDENCE:
            return
        rate = session.accepted / session.judged
        if rate < self._rule.below:
            session.pause = min(2 * session.pause, LONGEST_PAUSE) if session.on_trial else FIRST_PAUSE
            session.wait, session.probes = session.pause, 0
            return
        session.on_trial = False
        if rate > self._rule.above and session.rung + 1 < len(self._rungs):
            session.rung += 1
            session.drafted = 0

    def _probe(self, session: _Session, accepted: int) -> None:
        if not accepted:
            session.pause = min(2 * session.pause, LONGEST_PAUSE)
            session.wait, session.probes = session.pause, 0
            return
        session.probes += 1
        if session.probes == RESUME_AFTER:
            session.rung, session.wait, session.on_trial = 0, None, True
            session.accepted, session.judged, session.drafted = 0.0, 0.0, 0
