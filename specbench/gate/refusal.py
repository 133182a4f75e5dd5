"""When a gate does not compare: runs whose difference would say nothing of the change."""

from __future__ import annotations

from specbench.comparison.fingerprint import WORK
from specbench.comparison.snapshot import Snapshot
from specbench.differences import differences
from specbench.errors import SpecbenchError


def refuse_unlike(baseline: Snapshot, candidate: Snapshot, *, same_session: bool = False) -> None:
    """Raises SpecbenchError, with the reasons, where a comparison would say nothing.

    same_session: two configurations on one machine, whose engine options are what is compared
    What only one of both knows (an option of a newer specbench, a workload that the other lacks) is no difference.
    """
    names = baseline.fingerprint.keys() & candidate.fingerprint.keys()
    if same_session:
        work = {f"--{name.replace('_', '-')}" for name in WORK}
        names = {n for n in names if n in ("target", "arrivals") or n.startswith("workload ") or n in work}
    different = differences(baseline.fingerprint, candidate.fingerprint, names)
    if not different:
        return
    way_out = (
        "Give both configurations the same target and requests."
        if same_session
        else "Measure the baseline anew under the candidate's conditions and save it (specbench baseline save), or "
        "compare two configurations on one machine with gate --interleave."
    )
    raise SpecbenchError(f"{baseline.run} and {candidate.run} cannot be compared: {'; '.join(different)}. {way_out}")
