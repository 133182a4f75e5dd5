"""How much of a measurement the GPU spent below its clocks, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from specbench.analysis.marks import Mark
from specbench.store.measurement import Measurement
from specbench.telemetry.throttle import HARDWARE, SLOWING

MOST_THROTTLED_SHARE = 0.05


def throttled_shares(measurements: Iterable[Measurement]) -> dict[str, float] | None:
    """Share of the readings under each reason that slows a busy GPU, and under `any`; None where no GPU tells."""
    reasons = [set(s.throttle.split("+")) for m in measurements for s in m.telemetry if s.throttle is not None]
    if not reasons:
        return None
    found = Counter(word for words in reasons for word in words & SLOWING)
    return {"any": sum(bool(words & SLOWING) for words in reasons) / len(reasons)} | {
        word: count / len(reasons) for word, count in found.most_common()
    }


def throttled(arms: Mapping[str, Iterable[Measurement]]) -> Mark | None:
    """arms: the measurements of a cell and those of its baseline, by the arm's name."""
    said, slowing = [], set[str]()
    for arm, measurements in arms.items():
        shares = throttled_shares(measurements) or {"any": 0.0}
        if shares.pop("any") > MOST_THROTTLED_SHARE:
            said.append(f"{', '.join(f'{word} in {share:.0%}' for word, share in shares.items())} of readings ({arm})")
            slowing |= shares.keys()
    if not said:
        return None
    how = "slowed down by its own hardware" if slowing & HARDWARE else "kept below its clocks"
    return Mark(
        "throttled",
        f"The GPU was {how}: {'; '.join(said)}. Times are of this GPU in this state, and arms that are throttled "
        "differently do not compare. See to cooling and power, or set lower clocks for all arms (nvidia-smi -lgc).",
    )
