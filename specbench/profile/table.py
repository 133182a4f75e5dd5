"""A profile's report as rows for a person. report: as `sources` makes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

GAMMA_COLUMNS = (
    "gamma",
    "tokens per step",
    "per draft",
    "accepted of drafted",
    "each position, conditional",
    "speedup",
)
CATEGORY_COLUMNS = ("category", "requests", "best gamma", "tokens per step", "speedup", "oracle")
POSITION_COLUMNS = ("output position", "steps", "tokens per step")


def gamma_rows(method: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """One row per gamma."""
    for row in method["gammas"]:
        yield (
            str(row["gamma"]),
            _number(row["mean_acceptance_length"]),
            _number(row["mean_acceptance_length_per_draft"]),
            _percent(row["draft_acceptance_rate"]),
            " ".join(_number(value, 2).removeprefix("0") for value in row["conditional_acceptance"]),
            _number(row["predicted_speedup"], 2),
        )


def category_rows(method: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """One row per category, at the gamma that is best for it."""
    for name, group in method["by_category"].items():
        best = _at(group["gammas"], group["best_gamma"])
        yield (
            name,
            str(group["requests"]),
            str(group["best_gamma"]) if best else "none",
            _number(best["mean_acceptance_length"]) if best else "–",
            _number(group["best_speedup"], 2),
            _number(group["oracle_speedup"], 2),
        )


def position_rows(method: Mapping[str, Any], gamma: int) -> Iterator[tuple[str, ...]]:
    """One row per bucket of output positions."""
    for span in method["by_output_position"]:
        row = _at(span["gammas"], gamma)
        if row:
            last = "" if span["below"] is None else span["below"] - 1
            yield f"{span['from']}–{last}", str(row["steps"]), _number(row["mean_acceptance_length"])


def verdict(method: Mapping[str, Any]) -> str:
    """The best fixed gamma and the oracle's bound, in a sentence."""
    cost = f"a drafted token costs {method['cost_per_drafted_token']:.3g} plain steps: {method['cost_source']}"
    if not method["tokens"]:
        return f"{method['method']}: no request is long enough to have a step."
    bound = f"an oracle that sets gamma step by step would reach {method['oracle_speedup']:.2f}"
    if not method["best_gamma"]:
        return f"{method['method']}: no fixed gamma is predicted to gain; {bound} ({cost})."
    return f"{method['method']}: gamma {method['best_gamma']} is best, {method['best_speedup']:.2f}; {bound} ({cost})."


def notes(report: Mapping[str, Any]) -> Iterator[str]:
    """What a reader must know of the figures, a sentence each."""
    unit = report["unit"]
    if report["simulated"]:
        yield "SIMULATED: responses or costs come from a run of a scenario, in which no engine ran."
    yield (
        f"{report['requests']} responses, {report['response_tokens']} {unit} "
        f"(and {report['prompt_tokens']} of prompts)."
    )
    if unit != "tokens":
        yield f"Counted in {unit}, not in the model's tokens: give --tokenizer for figures that an engine would show."
    if report["loops"]:
        kept = "counted" if report["keep_loops"] else "left out; --keep-loops counts them"
        yield f"{report['loops']} responses end in a loop, which accepts anything: {kept}."
    if report.get("promptless"):
        yield f"{report['promptless']} responses stand without their prompt, so that no draft comes from it."
    if report.get("skipped"):
        yield f"{len(report['skipped'])} broken lines were skipped, the first: {report['skipped'][0]}"
    if report.get("too_long"):
        yield f"{report['too_long']} prompts are too long for the model and were left out."


def _at(rows: Sequence[Mapping[str, Any]], gamma: int) -> Mapping[str, Any] | None:
    return next((row for row in rows if row["gamma"] == gamma), None)


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
