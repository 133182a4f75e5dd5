"""How many requests a second the fleet simulator gets through, on one core; with --day the whole day of a large fleet.

    python benchmarks/simulator_speed.py [--day] [--json FILE]

Prompts of 200±100 tokens, outputs of 100±50 (both lognormal), batches of 64 at most, γ 3 with acceptance that differs
from request to request, an 8B model on an H200 by the catalogue's priors. The day: 1,000 replicas behind one joint
shortest-queue router, a rate that peaks at 1.6 times its mean, 73 million requests. Its first minutes tell how long it
takes, with and without drafts; with --day it is played whole. The compiled code is made before the clock runs.
Committed as benchmarks/results/simulator_speed.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

from specbench.hardware.catalogue import catalogue, find_gpu
from specbench.planning.machine import Machine
from specbench.planning.performance import Drafting, Efficiency
from specbench.planning.shape import STAND_IN
from specbench.planning.simulator import Acceptance, Arrivals, Diurnal, Fleet, Renewal, Replica, arrivals_of, simulate
from specbench.workloads.traffic_spec import Lengths, parse_traffic_spec

RESULT = Path(__file__).parent / "results" / "simulator_speed.json"
PROMPT, OUTPUT = Lengths(200, 100), Lengths(100, 50)
DAY, STRETCH = 86_400.0, 1800.0
"""Seconds: of the day, and of what always is played of it."""
DAYS_TRAFFIC = "850 req/s, prompt 200±100, output 100±50, peak 1.6x at 14h"


def replica(policy: str) -> Replica:
    return Replica(
        model=STAND_IN,
        machine=Machine.of(find_gpu("H200", catalogue())),
        efficiency=Efficiency(1e-3, 0.75, 0.55, 1.4, 2e-5, 1.0),
        drafting=Drafting(0.08, 3e-4),
        acceptance=Acceptance(0.8, 0.8, -0.05, spread=0.5),
        policy=policy,
        max_batch_size=64,
        chunked=True,
    )


def timed(name: str, fleet: Fleet, arrivals: Arrivals) -> dict[str, Any]:
    began = time.perf_counter()
    outcome = simulate(fleet, arrivals)
    seconds = time.perf_counter() - began
    return {
        "case": name,
        "replicas": fleet.replicas,
        "router": fleet.router,
        "policy": fleet.replica.policy,
        "requests": outcome.requests,
        "seconds": round(seconds, 1),
        "requests_per_s": round(outcome.requests / seconds),
        "mean_batch": round(outcome.mean_batch, 2),
        "utilisation": round(outcome.utilisation, 3),
        "ttft_ms_p95": round(1e3 * outcome.ttft.quantile(0.95).value, 2),
        "tpot_ms_p95": round(1e3 * outcome.tpot.quantile(0.95).value, 3),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--day", action="store_true", help="the whole day of 1,000 replicas: 73 million requests")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    simulate(Fleet(replica("fixed:3")), Renewal(10, PROMPT, OUTPUT, 10))
    cases = [
        ("one busy replica", Fleet(replica("fixed:3"), 1), Renewal(60, PROMPT, OUTPUT, 3600)),
        ("the same without speculation", Fleet(replica("none"), 1), Renewal(60, PROMPT, OUTPUT, 3600)),
        ("100 replicas, shortest queue", Fleet(replica("fixed:3"), 100), Renewal(4000, PROMPT, OUTPUT, 120)),
        ("1,000 replicas, shortest queue", Fleet(replica("fixed:3"), 1000), Renewal(40_000, PROMPT, OUTPUT, 20)),
        ("1,000 replicas, goodput rule", Fleet(replica("goodput"), 1000), Renewal(40_000, PROMPT, OUTPUT, 10)),
    ]
    spec = parse_traffic_spec(DAYS_TRAFFIC)
    played = DAY if arguments.day else STRETCH
    for policy in ("fixed:3", "none"):
        name = f"{played / 60:.0f} minutes of a day of 1,000 replicas"
        cases.append((name, Fleet(replica(policy), 1000), arrivals_of(spec, played)))
    rows = []
    for case in cases:
        rows.append(timed(*case))
        if isinstance(case[2], Diurnal):
            rows[-1]["hours_of_a_day"] = round(spec.rate * DAY / rows[-1]["requests_per_s"] / 3600, 2)
        print("\t".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
