"""How many requests a server has at once, as shares of its busy time; and what speculation gains over them."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import poisson

from specbench.errors import SpecbenchError
from specbench.recommend.curves import GammaByBatch
from specbench.recommend.draws import Floats, Range
from specbench.sweep.config import MAX_BATCH_SIZE

_TAIL = 1e-9
_SHOWN = 40
"""Characters of a wrong value that a message repeats."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """shares: of the time in which any request runs, by their number; they add up to 1.  source: in words"""

    shares: Mapping[int, float]
    source: str

    @classmethod
    def of(cls, weights: Mapping[int, float], source: str) -> Concurrency:
        """Of any weights (shares, seconds, samples). Time without a request says nothing of speed and is left out."""
        busy = {size: weight for size, weight in sorted(weights.items()) if size > 0 and weight > 0}
        if not busy:
            raise SpecbenchError(f"{source}: at no time is there a request. Give batch sizes above 0 with their share.")
        # By the largest first: three weights of 1e308 add up to more than there is.
        scaled = {size: scale for size, weight in busy.items() if (scale := weight / max(busy.values()))}
        total = math.fsum(scaled.values())
        return cls({size: scale / total for size, scale in scaled.items()}, source)

    @property
    def mean(self) -> float:
        return math.fsum(size * share for size, share in self.shares.items())

    def limited_to(self, batch_size: int) -> Concurrency:
        """With an engine that runs no more than that at once: the others wait."""
        shares: dict[int, float] = {}
        for size, share in self.shares.items():
            shares[min(size, batch_size)] = shares.get(min(size, batch_size), 0.0) + share
        return Concurrency(shares, self.source)

    def beyond(self, batch_size: int) -> float:
        """The share of time with more requests than that."""
        return math.fsum(share for size, share in self.shares.items() if size > batch_size)


def evenly(batch_sizes: Iterable[int]) -> Concurrency:
    """Each measured batch size for the same time: what stands in for a user's own where none is given."""
    return Concurrency.of(dict.fromkeys(batch_sizes, 1.0), "each measured batch size for the same time, none was given")


def around_mean(mean: float) -> Concurrency:
    """Poisson: requests that come independently of each other and of the load, each served for as long as it takes."""
    if not 0 < mean <= MAX_BATCH_SIZE:
        raise SpecbenchError(f"--mean-concurrency: expected more than 0 and at most {MAX_BATCH_SIZE}; got {mean:g}.")
    sizes = range(1, int(poisson.isf(_TAIL, mean)) + 2)
    weights = {size: float(poisson.pmf(size, mean)) for size in sizes}
    return Concurrency.of(weights, f"Poisson around {mean:g}: requests come independently")


def read_histogram(path: Path) -> Concurrency:
    """A file of concurrency and its share of time: CSV with the header `concurrency,share`, or a JSON object.

    Shares may be any weights: seconds, samples, percent. Raises SpecbenchError with file and line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SpecbenchError(f"{path}: {reason}.") from error
    pairs = _json_pairs(path, text) if text.lstrip().startswith("{") else _csv_pairs(path, text)
    weights: dict[int, float] = {}
    for where, size, weight in pairs:
        try:
            number, share = int(size), float(weight)
        except ValueError:
            number, share = -1, math.nan
        if not (0 <= number <= MAX_BATCH_SIZE and 0 <= share < math.inf):
            raise SpecbenchError(
                f"{where}: expected a whole number of requests (0 to {MAX_BATCH_SIZE}) and its share of time, as in "
                f"4,0.25; got {_brief(size)} and {_brief(weight)}."
            )
        if number in weights:
            raise SpecbenchError(f"{where}: {number} is there twice. Add its shares up.")
        weights[number] = share
    return Concurrency.of(weights, str(path))


def _csv_pairs(path: Path, text: str) -> Iterable[tuple[str, str, str]]:
    lines = text.splitlines()
    if not lines or [name.strip() for name in lines[0].split(",")] != ["concurrency", "share"]:
        got = _brief(lines[0]) if lines and lines[0] else "nothing"
        raise SpecbenchError(f"{path}:1: expected the header concurrency,share (or a JSON object); got {got}.")
    rows = csv.reader(lines[1:])
    try:
        for row in rows:
            if row:
                where = f"{path}:{rows.line_num + 1}"
                if len(row) != 2:
                    raise SpecbenchError(f"{where}: expected two values, as in 4,0.25; got {len(row)}.")
                yield where, row[0].strip(), row[1].strip()
    except csv.Error as error:
        raise SpecbenchError(f"{path}:{rows.line_num + 1}: not CSV ({error}).") from error


def _json_pairs(path: Path, text: str) -> Iterable[tuple[str, str, str]]:
    try:
        found: list[tuple[str, object]] = json.loads(text, object_pairs_hook=list)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise SpecbenchError(f'{path}:{line}: not JSON ({error}). Write {{"1": 0.4, "8": 0.6}}.') from error
    except RecursionError:
        raise SpecbenchError(f'{path}:1: nested too deep to be read. Write {{"1": 0.4, "8": 0.6}}.') from None
    for size, weight in found:
        yield f"{path}: {_brief(size)}", size, "a list or an object" if isinstance(weight, list) else str(weight)


def _brief(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}… ({len(text)} characters)"


def gain_over(method: GammaByBatch, concurrency: Concurrency) -> tuple[Range, Floats]:
    """How many times as fast the same work is done at the same concurrency: 1 / Σ share / speedup; and its draws.

    Time is what the shares are of, so what they weigh is time per token: the harmonic mean. It lies between the
    smallest and the largest speedup, and it takes concurrency as given: where requests come at a rate of their own,
    faster ones overlap less (`arrivals`).
    """
    speedups = [(share, *method.at(size)) for size, share in concurrency.shares.items()]
    point = 1 / math.fsum(share * math.exp(-centre) for share, centre, _ in speedups)
    draws = 1 / np.sum([share * np.exp(-drawn) for share, _, drawn in speedups], axis=0)
    return Range.of(point, draws), draws
