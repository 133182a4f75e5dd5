"""A fleet of replicas under traffic, step by step: latencies, throughput, goodput, with and without speculation.

simulate(Fleet(Replica(model, machine, efficiency, policy="fixed:3", drafting=…, acceptance=…), 4), traffic)
"""

from specbench.planning.simulator.arrivals import Arrivals, Diurnal, Renewal, Replayed, arrivals_of
from specbench.planning.simulator.fleet import ROUTERS, Acceptance, Failures, Fleet, Replica
from specbench.planning.simulator.outcome import Latency, Outcome, Range
from specbench.planning.simulator.policy import POLICIES
from specbench.planning.simulator.run import simulate

__all__ = [
    "POLICIES",
    "ROUTERS",
    "Acceptance",
    "Arrivals",
    "Diurnal",
    "Failures",
    "Fleet",
    "Latency",
    "Outcome",
    "Range",
    "Renewal",
    "Replayed",
    "Replica",
    "arrivals_of",
    "simulate",
]
