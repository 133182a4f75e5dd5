"""The sampling check on running servers: draws of every arm, then the target's probabilities wherever it matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from specbench.equivalence.sampling.battery import CONTROL, TESTS_PER_ARM, Evidence, control, run_battery
from specbench.equivalence.sampling.observations import Distribution, Draw, Known, Place, Tokens
from specbench.equivalence.sampling.places import crowded, whole_outputs
from specbench.equivalence.sampling.results import TestResult
from specbench.equivalence.sampling.support import outside
from specbench.equivalence.sampling.verdict import SamplingVerdict, judge
from specbench.replay.records import RequestTrace
from specbench.speculation import Speculation
from specbench.sweep.config import SweepConfig
from specbench.verification.contexts import candidates, has_power
from specbench.verification.drawing import draws_of, requests_at
from specbench.verification.server import Server
from specbench.verification.settings import Effort

CANDIDATES = 3
"""Contexts that are looked at for each that is needed."""

PILOT_DRAWS = 24
BASELINE_DRAWS = 200
LONG = 32
"""Tokens of the longer outputs: later steps, longer contexts."""


EDGE = {"float32": 1e-3}
EDGE_OTHERWISE = 0.02
"""Added to top-p before a token counts as outside the nucleus, by dtype: rounding decides what lies on its edge."""


@dataclass
class SamplingRun:
    """What is gathered from launch to launch. Contexts 0.. are those of many draws, then come those of long outputs.

    candidates: prompts at which could be drawn · fixed: those at which is drawn many times · open: prompts of long
    outputs, drawn once · probabilities: whether the engine gives log-probabilities at all · arms: draws by arm
    powerless: arms whose drafts hardly came, or were all accepted
    """

    candidates: list[Tokens] = field(default_factory=list)
    fixed: list[Tokens] = field(default_factory=list)
    open: list[Tokens] = field(default_factory=list)
    probabilities: bool = True
    arms: dict[str, list[Draw]] = field(default_factory=dict)
    powerless: list[str] = field(default_factory=list)

    @property
    def prompts(self) -> list[Tokens]:
        return [*self.fixed, *self.open]


async def find_candidates(
    server: Server, traces: Sequence[RequestTrace], config: SweepConfig, effort: Effort
) -> SamplingRun:
    """On the baseline: where could be drawn, whatever the drafts will be."""
    prompts = [trace.prompt_token_ids for trace in traces if trace.prompt_token_ids]
    run = SamplingRun(open=prompts[: max(1, effort.positions // (2 * LONG))])
    try:
        found = await candidates(server, traces[: CANDIDATES * effort.contexts], config.method[0], config.seed)
        run.candidates = [context.prompt for context in found]
    except (LookupError, TypeError, ValueError, aiohttp.ClientResponseError) as error:
        server.note(
            f"the engine gives no log-probabilities ({error}): its draws are compared with draws of the baseline"
        )
        run.probabilities, run.candidates = False, prompts
    return run


async def draw_arm(
    server: Server, speculation: Speculation, run: SamplingRun, config: SweepConfig, effort: Effort
) -> None:
    """Draw with speculation. The first arm's pilot chooses the contexts, and all arms draw there."""
    number, width = len(run.arms) + 2, output_width(speculation.gamma)
    if not run.fixed:
        run.fixed = await _with_power(server, run.candidates, width, config, effort)
    server.note(f"{speculation.label}: {effort.draws} draws of {width} tokens at each of {len(run.fixed)} contexts …")
    requests = requests_at(run.fixed, effort.draws, width, config, 2 * number)
    draws = draws_of(await server.replay(requests))
    longer = requests_at(run.open, 1, LONG, config, 2 * number + 1)
    run.arms[speculation.label] = draws + draws_of(await server.replay(longer), first_context=len(run.fixed))
    if not has_power(draws):
        run.powerless.append(speculation.label)


def output_width(gamma: int) -> int:
    """Output tokens of a draw: the first, and two whole steps; at least the 3-gram that follows the first."""
    return max(4, 2 * gamma + 2)


async def _with_power(
    server: Server, candidates: Sequence[Tokens], width: int, config: SweepConfig, effort: Effort
) -> list[Tokens]:
    """Contexts where drafts come and are rejected now and then; if these are too few, some of the others too.

    An engine that keeps every draft, whatever it is worth, has no such context, and is to be found out all the same.
    """
    pilot = draws_of(await server.replay(requests_at(candidates, PILOT_DRAWS, width, config, 1)))
    by_context: dict[int, list[Draw]] = {}
    for draw in pilot:
        by_context.setdefault(draw.context, []).append(draw)
    powerful = [c for c in sorted(by_context) if has_power(by_context[c])]
    server.note(f"at {len(powerful)} of {len(candidates)} contexts drafts come and some are rejected")
    others = [c for c in sorted(by_context) if c not in powerful]
    return [candidates[c] for c in [*powerful, *others]][: effort.contexts]


async def conclude(
    server: Server, run: SamplingRun, config: SweepConfig, effort: Effort
) -> tuple[SamplingVerdict, TestResult | None]:
    """On the baseline again: its own draws, the target's probabilities, the tests. Also the control, where made."""
    if not run.fixed:
        reason = "no context was found at which a bias would show: give other prompts, or a higher temperature"
        return judge({}, effort.level, effort.find_tv, reason), None
    level = effort.level / (TESTS_PER_ARM * len(run.arms))
    width = max(len(draw.tokens) for draws in run.arms.values() for draw in draws if draw.context < len(run.fixed))
    count = min(effort.draws, BASELINE_DRAWS) if run.probabilities else effort.draws
    server.note(f"baseline: {count} draws at each context …")
    baseline = draws_of(await server.replay(requests_at(run.fixed, count, width, config, 0)))
    known, checked = await _probabilities(server, run, baseline, effort, level)
    if not known and count < effort.draws:
        server.note("more draws of the baseline: two samples are compared …")
        baseline += draws_of(await server.replay(requests_at(run.fixed, effort.draws - count, width, config, 2)))
    arms = {}
    for name, draws in run.arms.items():
        _, suspects = outside(draws, known, Draw.stepped)
        wider = await _wider(server, run, [place for place, _ in suspects], config)
        arms[name] = run_battery(Evidence(draws, baseline, known, wider), level, config.seed)
    powerless = None
    if run.powerless:
        powerless = f"hardly a draft was proposed and rejected with {', '.join(run.powerless)}, so little was tested"
    return judge(arms, effort.level, effort.find_tv, powerless), checked


async def _probabilities(
    server: Server, run: SamplingRun, baseline: Sequence[Draw], effort: Effort, level: float
) -> tuple[dict[Place, Distribution], TestResult | None]:
    """The target's distributions, unless the baseline's own draws contradict them (they may be those before top-p)."""
    if not run.probabilities:
        return {}, None
    places = _places(run, baseline, effort.positions)
    server.note(f"asking the target for its probabilities at {len(places)} places …")
    prompts = run.prompts
    found = await server.distributions([prompts[context] + tokens for context, tokens in places])
    known = dict(zip(places, found, strict=True))
    checked = control(baseline, known, level)
    if checked.p is not None and checked.p < level:
        server.note(f"{CONTROL} do not follow the engine's log-probabilities: these are left aside")
        return {}, checked
    return known, checked


def _places(run: SamplingRun, baseline: Sequence[Draw], positions: int) -> list[Place]:
    """The crowded places of every arm, and all those of some whole outputs of each, the longer ones first."""
    found = crowded([*run.arms.values(), baseline])
    for draws in run.arms.values():
        longest_first = sorted(draws, key=lambda draw: draw.context < len(run.fixed))
        found += whole_outputs(longest_first, positions)
    return list(dict.fromkeys(found))


async def _wider(server: Server, run: SamplingRun, places: Sequence[Place], config: SweepConfig) -> Known:
    unique = list(dict.fromkeys(places))
    top_p = min(1.0, config.top_p + EDGE.get(config.dtype, EDGE_OTHERWISE))
    prompts = run.prompts
    found = await server.distributions((prompts[c] + tokens for c, tokens in unique), top_p=top_p)
    return dict(zip(unique, found, strict=True))


def arms_drafted(arms: Mapping[str, Sequence[Draw]]) -> dict[str, float | None]:
    """Tokens accepted of those drafted, by arm; None where the engine does not say."""
    rates: dict[str, float | None] = {}
    for name, draws in arms.items():
        steps = [step for draw in draws for step in draw.steps or ()]
        drafted = sum(d for d, _ in steps)
        rates[name] = sum(a for _, a in steps) / drafted if drafted else None
    return rates
