"""Runs of known truth whose reports hold what pages may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path
from typing import Any

from known_run import NGRAM, failed, measurement, output_of, request, store

from specbench.analysis.summary import summarize
from specbench.report.html import render_html
from specbench.speculation import BASELINE, Speculation
from specbench.store.measurement import Cell, Measurement
from specbench.store.run import RunStore
from specbench.telemetry.sample import Sample

HOSTILE = (
    '<img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    "$x$ \\frac{a} `code` 'single' \"double\" &amp; \u2028",
    "\u202edesrever \u05e9\u05dc\u05d5\u05dd",
    "n" * 200,
)
EAGLE = Speculation("eagle3", 2, "drafts/head")
PHASES = {"prefill": 1.0, "draft": 0.5, "verify": 2.0, "accept": 0.1}
MONEY = {"gpu_price": 2.0, "engineering_cost": 5e3, "tokens_per_month": 1e10}


def rich(workload: str = "chat", replicates: int = 3, sizes: tuple[int, ...] = (1, 2, 4)) -> Iterator[Measurement]:
    """n-gram gains, EAGLE-3 does so at batch 1 only and diverges there once; telemetry, phases, categories."""
    for replicate in range(replicates):
        for size in sizes:
            common: dict[str, Any] = {
                "workload": workload, "replicate": replicate, "requests": 8 * size, "categories": ("maths", "chat"),
                "telemetry": [Sample(i * 0.1, "host", 10**9 + 10**8 * size, 90.0 + i) for i in range(20)],
            }  # fmt: skip
            slow = 0.0001 * replicate
            yield measurement(batch_size=size, steps=(0.01 + slow,), phase_seconds=PHASES, **common)
            yield measurement(NGRAM, size, accepted=2, steps=(0.014 + 2 * slow,), phase_seconds=PHASES, **common)
            changed = {3: (*output_of("p003", 20), 7)} if size == 1 else None
            yield measurement(EAGLE, size, accepted=1, steps=(0.012 * size**0.7,), outputs=changed, **common)


def open_loop() -> Iterator[Measurement]:
    for speculation in (BASELINE, NGRAM):
        for rate in (1.0, 2.0):
            speed = 0.01 if speculation == BASELINE else 0.006
            traces = tuple(
                request(
                    i, due=i / rate, step=speed * rate, gamma=speculation.gamma, accepted=1 if speculation.gamma else 0
                )
                for i in range(12)
            )
            cell = Cell("reference", "demo", "chat", speculation, 4, 0.0, rate)
            yield measurement(speculation, 4, cell=cell, id=f"{cell.id}-r0k0", traces=traces)


RUNS: dict[str, Callable[[], Iterator[Measurement]]] = {
    "rich": rich,
    "small": lambda: rich("chat", 1, (1, 2)),
    "hostile": lambda: (
        replace(m, id=f"m{i}") for i, m in enumerate(chain.from_iterable(rich(n, 1, (1, 2)) for n in HOSTILE))
    ),
    "open loop": open_loop,
    "one cell": lambda: iter([measurement()]),
    "nothing": lambda: iter([]),
    "failed only": lambda: iter([failed(BASELINE), failed(error=HOSTILE[0], log_tail=HOSTILE[1])]),
    "void": lambda: iter([measurement(), measurement(NGRAM, accepted=1, steps=(0.002,), client_lag_p99=0.2)]),
}


def kept(folder: Path, name: str, **config: Any) -> RunStore:
    """The run of that name on disk; `config` as in known_run."""
    return store(folder, list(RUNS[name]()), **{**MONEY, **config})


def page_of(run: RunStore) -> str:
    measurements = run.measurements()
    return render_html(summarize(run, measurements), measurements)


class Page(HTMLParser):
    """Open elements, all tags with their attributes, and the text that is shown."""

    VOID = frozenset({"meta", "br", "img", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())
