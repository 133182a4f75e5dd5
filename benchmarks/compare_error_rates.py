"""How often `specbench compare` finds a difference between runs that do not differ.

    python benchmarks/compare_error_rates.py [--comparisons 2000]

Figures of both runs are normal on the log scale, as many as a comparison has at once; what is counted comes from the
functions that the command uses. Beside it Welch's test as it is, adjusted in the same way. Committed as
benchmarks/results/compare_error_rates.json.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_ind

from specbench.comparison.result import Effect
from specbench.comparison.snapshot import CellKey
from specbench.comparison.statistics import Sample, ask, judge

RESULT = Path(__file__).parent / "results" / "compare_error_rates.json"
NOISE = 0.02
CELL = CellKey("chat", "ngram", 4, False, 1, None)
WORLDS = [(2, 2, 1.0), (2, 5, 1.0), (2, 5, 1 / 3), (2, 20, 1.0), (3, 10, 1.0), (5, 5, 1.0), (5, 5, 3.0), (5, 20, 1 / 3)]
"""Launches of either run, and how much more the second one's vary."""
FIGURES = (10, 40)


def false_findings(before: int, after: int, spread: float, figures: int, comparisons: int) -> dict[str, Any]:
    """Share of comparisons in which any figure is found to differ."""
    rng, found, welch = np.random.default_rng(before * 100 + after), 0, 0
    for _ in range(comparisons):
        a = rng.normal(0, NOISE, (figures, before))
        b = rng.normal(0, NOISE * spread, (figures, after))
        welch += bool(ttest_ind(a, b, axis=1, equal_var=False).pvalue.min() * figures < 0.05)
        questions = [
            ask(
                Effect("B", CELL, CELL, "speedup", "not judged"),
                *(Sample({r: math.exp(x) for r, x in enumerate(side)}, {}) for side in pair),
                more_is_better=True,
                same_session=False,
            )
            for pair in zip(a.tolist(), b.tolist(), strict=True)
        ]
        found += any(effect.outcome in ("better", "worse") for effect in judge(questions, 0.95))
    world = {"before": before, "after": after, "spread": spread, "figures": figures}
    return {**world, "comparisons": comparisons, "welch": welch / comparisons, "compare": found / comparisons}


def main() -> None:
    parser = argparse.ArgumentParser(description="False findings of specbench compare, simulated.")
    parser.add_argument("--comparisons", type=int, default=2_000)
    comparisons = parser.parse_args().comparisons
    rows = [false_findings(*world, figures, comparisons) for world in WORLDS for figures in FIGURES]
    RESULT.write_text(json.dumps({"noise": NOISE, "false_findings": rows}, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
