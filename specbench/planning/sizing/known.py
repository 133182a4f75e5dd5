"""What is known before a plan: of the target, the drafter and the machine, from a run or from the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy.special import ndtri

from specbench.analysis.summary import summarize
from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import Gpu, catalogue, find_gpu
from specbench.planning.cells import PLAIN, Observation
from specbench.planning.fit import DISCREPANCY, Fit, unfitted
from specbench.planning.fit import fit as fit_model
from specbench.planning.from_run import Measured, measured
from specbench.planning.machine import UNKNOWN, Machine
from specbench.planning.parameters import Model
from specbench.planning.prediction import LEVEL, calibrated
from specbench.planning.shape import ModelShape
from specbench.planning.sizing.acceptance import with_acceptance
from specbench.planning.sizing.services import Arm
from specbench.store.run import RunStore

ASSUMED = "assumed"
"""The workload of an arm that was not measured."""

_NOISE = 0.02
_LONGEST = 7
"""Of what was not measured: noise of a measurement, and a gamma beyond which few drafters are used."""
USUAL_BATCH = 256
"""Requests at once that engines allow by default."""


@dataclass(frozen=True)
class Known:
    """arm: workload and method;  gammas: those to choose from;  max_batch_size: requests at once
    drafted_share: of gamma tokens, how many a step really proposes
    form: standard deviation of ln capacity that the form of the model leaves out
    kv_tokens: what the engine reported without and with speculation, on the fit's own machine; None where it did not
    gpu: None for a machine that the catalogue does not have;  is_measured: whether a run stands behind it
    """

    fit: Fit
    arm: Arm
    gammas: Sequence[int]
    max_batch_size: int
    drafted_share: float
    form: float
    kv_tokens: tuple[int, int] | None
    gpu: Gpu | None
    is_measured: bool
    notes: tuple[str, ...]

    def accepting(self, conditional: Sequence[float]) -> Known:
        """With an assumed acceptance in place of what was measured."""
        note = f"Acceptance is assumed: {', '.join(f'{chance:g}' for chance in conditional)} by position."
        found = with_acceptance(self.fit, self.arm, conditional)
        return replace(self, fit=found, notes=(*self.notes, note))


def from_catalogue(shape: ModelShape, gpu: Gpu, machine: Machine, method: str) -> Known:
    """Nothing was measured: what engines and drafters have been seen to reach, with wide intervals."""
    arm = (ASSUMED, method)
    note = "Nothing was measured: speeds are what engines reach of such a chip's data sheet, and intervals are wide."
    fit = unfitted(Model(shape, machine, (arm,)), _NOISE)
    gammas = range(1, _LONGEST + 1)
    return Known(fit, arm, gammas, USUAL_BATCH, 1.0, DISCREPANCY, None, gpu, False, (note,))


def from_run(store: RunStore, workload: str | None, method: str | None) -> Known:
    """Of the arm that is named, or that gained most where it gained most.

    Raises SpecbenchError where the run has several workloads and none is named, or no such arm.
    """
    seen = measured(store)
    arm = _arm(store, seen, workload, method)
    its = [o.point for o in seen.observations if (o.point.workload, o.point.method) == arm and o.point.gamma]
    found = calibrated(fit_model(seen.model, seen.observations))
    # By how much held-out cells were farther off than the covariance says.
    wider = max(1.0, found.factor / float(ndtri((1 + LEVEL) / 2)))
    return Known(
        fit=replace(found.fit, covariance=wider**2 * found.fit.covariance),
        arm=arm,
        gammas=range(1, max(p.gamma for p in its) + 1),
        max_batch_size=max(o.point.batch_size for o in seen.observations),
        drafted_share=its[0].drafted_share,
        form=wider * DISCREPANCY,
        kv_tokens=_kv_tokens(store, arm[1]),
        gpu=_gpu_of(store, seen.model.machine),
        is_measured=True,
        notes=seen.notes,
    )


def _arm(store: RunStore, seen: Measured, workload: str | None, method: str | None) -> Arm:
    arms = [
        arm
        for arm in seen.model.arms
        if (workload is None or arm[0] == workload) and (method is None or arm[1] == method)
    ]
    if not arms:
        there = ", ".join(f"{w} with {m}" for w, m in seen.model.arms) or "plain decoding alone"
        raise SpecbenchError(f"{store.path} has no such arm to plan with; it has {there}.")
    if len(names := dict.fromkeys(w for w, _ in arms)) > 1:
        raise SpecbenchError(
            f"{store.path} has several workloads, which accept differently: say which one your traffic is like, as in "
            f"--workload {next(iter(names))} (or {', '.join(list(names)[1:])})."
        )
    return max(arms, key=lambda arm: _largest_gain(arm, seen.observations))


def _largest_gain(arm: Arm, observations: Sequence[Observation]) -> float:
    rates = {(o.point.workload, o.point.batch_size): o.tokens_per_second for o in observations if not o.point.gamma}
    its = [o for o in observations if (o.point.workload, o.point.method) == arm and o.point.gamma]
    return max((o.tokens_per_second / rates.get((arm[0], o.point.batch_size), float("inf")) for o in its), default=0.0)


def _kv_tokens(store: RunStore, method: str) -> tuple[int, int] | None:
    """The smallest that any cell of an arm had."""
    least: dict[str, int] = {}
    for c in summarize(store).cells:
        if c.kv_capacity_tokens is not None:
            least[c.method] = min(c.kv_capacity_tokens, least.get(c.method, c.kv_capacity_tokens))
    return (least[PLAIN], least[method]) if {PLAIN, method} <= least.keys() else None


def _gpu_of(store: RunStore, machine: Machine) -> Gpu | None:
    if machine.spread >= UNKNOWN.spread:
        return None
    return find_gpu(str(store.manifest["hardware"]["gpus"][0]["name"]), catalogue())
