"""How many draws find which bug of speculative sampling, and how often a correct sampler is accused.

Writes benchmarks/results/sampling_power.json and prints it as a table. Nothing here is timed.

1. For random pairs of a target and a draft (5,000 tokens, temperature 0.8, top-p 0.95, mean acceptance about 0.6) the
   distribution that each bug gives a drafted position is known in closed form. From it follow the draws at which a
   G-test at one fixed context (cells under 1 % pooled) has power 0.99, at the levels 1e-3 and 1e-4; simulation at the
   median confirms the power.
2. Tables of counts from the target itself give the false alarm rate of the G-test.
3. The whole battery runs on draws from a known random tree: how often does it accuse a correct sampler?

    python benchmarks/sampling_power.py [--quick]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import xlogy

from specbench.equivalence.sampling.battery import LEVEL, TESTS_PER_ARM, Evidence, run_battery
from specbench.equivalence.sampling.frequencies import williams
from specbench.equivalence.sampling.observations import Distribution, Draw, Known, Place
from specbench.equivalence.sampling.places import crowded, whole_outputs
from specbench.equivalence.sampling.power import POWER, draws_for_leak, noncentrality
from specbench.equivalence.sampling.strata import Stratum, pool
from specbench.equivalence.sampling.verdict import judge

Floats = npt.NDArray[np.float64]

VOCAB, TEMPERATURE, TOP_P = 5_000, 0.8, 0.95
SPREAD, DISAGREEMENT = 2.4, 0.62
"""Standard deviations of logits: of what both models have in common, and of what each has on its own."""

LEVELS = (1e-3, 1e-4)
STALE_SHARE = 0.3
ENOUGH = 10**9
RESULT = Path(__file__).parent / "results" / "sampling_power.json"


def warp(logits: Floats, top_p: float = TOP_P, temperature: float = TEMPERATURE) -> Floats:
    """Probabilities after temperature and nucleus; [V] -> [V]"""
    p = np.exp((logits - logits.max()) / temperature)
    p /= p.sum()
    order = np.argsort(-p)
    kept = order[: int(np.searchsorted(np.cumsum(p[order]), top_p)) + 1]
    out = np.zeros_like(p)
    out[kept] = p[kept] / p[kept].sum()
    return out


def pairs(rng: np.random.Generator, count: int) -> Iterator[dict[str, Floats]]:
    """Targets and drafts that a test has power for: acceptance 0.5 to 0.7, more than 1 nat of entropy."""
    while count:
        common = SPREAD * rng.standard_normal(VOCAB)
        target, draft = (common + DISAGREEMENT * rng.standard_normal(VOCAB) for _ in range(2))
        p, q = warp(target), warp(draft)
        if 0.5 < np.minimum(p, q).sum() < 0.7 and -xlogy(p, p).sum() > 1:
            count -= 1
            stale = common + 2 * DISAGREEMENT * rng.standard_normal(VOCAB)
            yield {
                "p": p,
                "q": q,
                "q raw": warp(draft, 1.0, 1.0),
                "p without top-p": warp(target, 1.0),
                "p stale": warp(stale),
            }


def step(p: Floats, q: Floats, keep: Floats, residual: Floats) -> Floats:
    """What a position gets that is drafted from q, kept with probability `keep`, and else drawn from `residual`."""
    total = residual.sum()
    return q * keep + (1 - (q * keep).sum()) * (residual / total if total > 0 else p)


def biased(bug: str, x: dict[str, Floats]) -> Floats:
    """The distribution of a drafted position's token under each bug; [V]"""
    p, q = x["p"], x["q"]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(q > 0, np.minimum(1, p / q), 1.0)
        inverted = np.where(p > 0, np.minimum(1, q / p), 1.0)
        raw = np.minimum(1, p / x["q raw"])
    positive = np.maximum(p - q, 0)
    match bug:
        case "none":
            return step(p, q, ratio, positive)
        case "residual drawn from the target":
            return step(p, q, ratio, p)
        case "residual (q-p)+":
            return step(p, q, ratio, np.maximum(q - p, 0))
        case "acceptance inverted":
            return step(p, q, inverted, positive)
        case "always accept, or bonus from the draft":
            return q
        case "accept u < p (no ratio)":
            return step(p, q, p, positive)
        case "draft temperature/top-p ignored in the ratio":
            return step(p, q, raw, np.maximum(p - x["q raw"], 0))
        case "stale KV in 30 % of steps":
            return (1 - STALE_SHARE) * p + STALE_SHARE * x["p stale"]
        case "target's top-p missing":
            return x["p without top-p"]
    raise ValueError(bug)


BUGS = (
    "residual drawn from the target",
    "residual (q-p)+",
    "acceptance inverted",
    "always accept, or bonus from the draft",
    "accept u < p (no ratio)",
    "draft temperature/top-p ignored in the ratio",
    "stale KV in 30 % of steps",
    "target's top-p missing",
)


def cells(p: Floats, f: Floats, n: float) -> tuple[Floats, Floats]:
    """Probabilities of the pooled cells under target and bug; where the target cannot go is the support test's."""
    possible = p > 0
    pooled = pool(n * f[possible] / f[possible].sum(), p[possible])
    return pooled.probs / pooled.probs.sum(), pooled.counts / pooled.counts.sum()


def g_tests(counts: npt.NDArray[np.int64], probs: Floats) -> Floats:
    """p-values of many tables of the same cells, counts [runs, k]; as `frequencies.one_sample`, for one stratum."""
    n, df = int(counts[0].sum()), len(probs) - 1
    g = 2 * xlogy(counts, counts / (n * probs)).sum(1)
    return np.asarray(stats.chi2.sf(g / williams(Stratum(n * probs, probs)), df))


def draws_needed(p: Floats, f: Floats, level: float) -> int:
    """Draws at which the G-test has power 0.99; its noncentrality is 2n·KL(f‖p) over the pooled cells."""
    n = 1_000.0
    for _ in range(6):  # the cells depend on n, and n on the cells
        expected, observed = cells(p, f, n)
        divergence = float((xlogy(observed, observed / expected)).sum())
        if len(expected) < 2 or divergence < 1e-9:
            return ENOUGH
        n = max(20.0, noncentrality(len(expected) - 1, level, POWER) / (2 * divergence))
    return int(np.ceil(n))


def detection_rate(rng: np.random.Generator, p: Floats, f: Floats, n: int, level: float, runs: int) -> float:
    expected, observed = cells(p, f, n)
    return float((g_tests(rng.multinomial(n, observed, size=runs), expected) < level).mean())


def table(rng: np.random.Generator, count: int, runs: int) -> list[dict[str, Any]]:
    family = list(pairs(rng, count))
    rows = []
    for bug in BUGS:
        distributions = [biased(bug, x) for x in family]
        row: dict[str, Any] = {
            "bug": bug,
            "tv": float(np.median([np.abs(f - x["p"]).sum() / 2 for f, x in zip(distributions, family, strict=True)])),
        }
        for level in LEVELS:
            draws = np.array([draws_needed(x["p"], f, level) for f, x in zip(distributions, family, strict=True)])
            middle = int(np.argsort(draws)[len(draws) // 2])
            median, p90 = int(np.median(draws)), int(np.quantile(draws, 0.9))
            row[f"draws at {level:g}"] = {"median": median, "p90": p90} if median < ENOUGH else None
            rate = None
            if draws[middle] < ENOUGH:
                rate = detection_rate(rng, family[middle]["p"], distributions[middle], int(draws[middle]), level, runs)
            row[f"detected at {level:g}"] = rate
        leak = np.array([f[x["p"] == 0].sum() for f, x in zip(distributions, family, strict=True)])
        row["outside the nucleus"] = float(np.median(leak))
        row["support test draws"] = draws_for_leak(float(np.median(leak))) if np.median(leak) > 1e-6 else None
        rows.append(row)
    return rows


def false_alarms(rng: np.random.Generator, count: int, runs: int) -> dict[str, Any]:
    """Of the G-test at one context, over `count` targets and as many tables of each as `runs`."""
    found: dict[str, Any] = {"targets": count, "tables of each": runs}
    for n in (100, 400, 2_000):
        p_values = []
        for x in pairs(rng, count):
            expected, _ = cells(x["p"], x["p"], n)
            if len(expected) < 2:  # so flat that with these draws every token is too rare to count
                continue
            p_values.append(g_tests(rng.multinomial(n, expected, size=runs), expected))
        every = np.concatenate(p_values)
        found[f"n={n}"] = {f"{level:g}": float((every < level).mean()) for level in (1e-2, *LEVELS)}
    return found


class RandomTree:
    """A target whose next-token distributions are drawn at random for each prefix, and remembered."""

    def __init__(self, seed: int, vocab: int = 60) -> None:
        self._seed, self._vocab = seed, vocab
        self._seen: dict[Place, Floats] = {}

    def probs(self, place: Place) -> Floats:
        if place not in self._seen:
            rng = np.random.default_rng([self._seed, place[0], *place[1]])
            self._seen[place] = warp(2.0 * rng.standard_normal(self._vocab))
        return self._seen[place]

    def draws(self, rng: np.random.Generator, contexts: int, count: int, width: int) -> list[Draw]:
        found = []
        for context in range(contexts):
            for _ in range(count):
                tokens: tuple[int, ...] = ()
                while len(tokens) < width:
                    p = self.probs((context, tokens))
                    tokens += (int(np.searchsorted(np.cumsum(p), rng.random() * p.sum())),)
                # A drafter with acceptance 0.6 whose verdicts, for a correct sampler, say nothing of the tokens.
                steps, at = [], 1
                while at < width:
                    accepted = int(at + 1 < width and rng.random() < 0.6)
                    steps.append((int(at + 1 < width), accepted))
                    at += accepted + 1
                found.append(Draw(context, tokens, tuple(steps)))
        return found

    def known(self, places: list[Place], top: int = 20) -> Known:
        found = {}
        for place in places:
            p = self.probs(place)
            best = [int(token) for token in np.argsort(-p)[:top] if p[token] > 0]
            found[place] = Distribution(tuple(best), tuple(map(float, p[best])), is_whole=len(best) < top)
        return found


def battery_alarms(rng: np.random.Generator, runs: int) -> dict[str, Any]:
    """A correct sampler through the whole battery: how often is it NOT EQUIVALENT, and each test below its level?"""
    rejected, small, made = 0, dict[str, int](), dict[str, int]()
    for run in range(runs):
        tree = RandomTree(seed=run)
        draws, baseline = (tree.draws(rng, contexts=3, count=100, width=4) for _ in range(2))
        known = tree.known(list(dict.fromkeys(crowded([draws, baseline]) + whole_outputs(draws, 300))))
        arm = run_battery(Evidence(draws, baseline, known, {}), LEVEL / TESTS_PER_ARM, seed=run)
        rejected += judge({"arm": arm}, LEVEL, find_tv=0.5).outcome == "NOT EQUIVALENT"
        for test in arm.tests:
            if test.p is not None:
                made[test.name] = made.get(test.name, 0) + 1
                small[test.name] = small.get(test.name, 0) + (test.p < 0.01)
    return {
        "verdicts": runs,
        "level": LEVEL,
        "not_equivalent": rejected,
        "p_below_0.01": {name: small.get(name, 0) / count for name, count in made.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer runs, and no result file")
    quick = parser.parse_args().quick
    rng = np.random.default_rng(20_250)
    result = {
        "family": {"vocab": VOCAB, "temperature": TEMPERATURE, "top_p": TOP_P, "pairs": 20 if quick else 200},
        "power": POWER,
        "bugs": table(rng, 20 if quick else 200, runs=500 if quick else 5_000),
        "g_test_false_alarms": false_alarms(rng, 10 if quick else 100, runs=500 if quick else 5_000),
        "battery": battery_alarms(rng, 10 if quick else 500),
    }
    if not quick:
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for row in result["bugs"]:
        draws = "  ".join(
            f"{level:g}: {' / '.join(map(str, (row[f'draws at {level:g}'] or {'never': 0}).values()))}"
            f" (found {row[f'detected at {level:g}']})"
            for level in LEVELS
        )
        print(f"{row['bug']:48} TV {row['tv']:.2f}  {draws}  support {row['support test draws']}")
    print(json.dumps({key: result[key] for key in ("g_test_false_alarms", "battery")}, indent=1))


if __name__ == "__main__":
    main()
