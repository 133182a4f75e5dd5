"""`specbench claim`: is a published figure possible?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from specbench.claims.check import Report
    from specbench.claims.figure import Figure
    from specbench.claims.finding import Finding
    from specbench.claims.published import Judgement

_HARDWARE = "The hardware and the model"
_SPEED = "Speed"
_SPECULATION = "Speculation"
_MONEY = "Money"


def claim(
    gpu: str | None = typer.Option(None, help="A GPU of `specbench gpus`, such as H200.", rich_help_panel=_HARDWARE),
    gpu_count: str | None = typer.Option(None, help="GPUs of one server; 1 by default.", rich_help_panel=_HARDWARE),
    model_params: str | None = typer.Option(None, help="Parameters, such as 405e9 or 70B.", rich_help_panel=_HARDWARE),
    active_params: str | None = typer.Option(
        None, help="Those that one token uses, of a mixture of experts.", rich_help_panel=_HARDWARE
    ),
    weight_bits: str | None = typer.Option(None, help="Bits per parameter: 16, 8, 4.", rich_help_panel=_HARDWARE),
    ridge: str | None = typer.Option(
        None, help="FLOP per byte at which the GPU's arithmetic is the limit.", rich_help_panel=_HARDWARE
    ),
    decode_intensity: str | None = typer.Option(
        None, help="FLOP per byte of weights in decoding.", rich_help_panel=_HARDWARE
    ),
    kv_shape: str | None = typer.Option(
        None, help="The target's layers, KV heads and head size: 80x8x128.", rich_help_panel=_HARDWARE
    ),
    draft_kv_shape: str | None = typer.Option(None, help="The drafter's.", rich_help_panel=_HARDWARE),
    kv_increase: str | None = typer.Option(
        None, help="What the drafter adds to the KV cache: 100% doubles it.", rich_help_panel=_HARDWARE
    ),
    hardware: Path | None = typer.Option(
        None, metavar="FILE", help="Your own GPUs or prices, as for `specbench gpus`.", rich_help_panel=_HARDWARE
    ),
    tokens_per_second: str | None = typer.Option(
        None, help="Output tokens of one server, all its requests together.", rich_help_panel=_SPEED
    ),
    baseline_tokens_per_second: str | None = typer.Option(
        None, help="The same without speculation, or before.", rich_help_panel=_SPEED
    ),
    batch_size: str | None = typer.Option(None, help="Requests in flight, or a range: 1-4.", rich_help_panel=_SPEED),
    speedup: str | None = typer.Option(None, help="Such as 2.89.", rich_help_panel=_SPECULATION),
    reported_speedup: str | None = typer.Option(
        None, help="What the cited source itself reports, or a counterexample.", rich_help_panel=_SPECULATION
    ),
    acceptance: str | None = typer.Option(None, help="Acceptance rate: 0.81 or 81%.", rich_help_panel=_SPECULATION),
    acceptance_length: str | None = typer.Option(
        None, help="Tokens per step, bonus token included.", rich_help_panel=_SPECULATION
    ),
    gamma: str | None = typer.Option(
        None, help="Tokens drafted per step, or a range: 4-8.", rich_help_panel=_SPECULATION
    ),
    draft_cost: str | None = typer.Option(
        None, help="Time of drafting one token, in steps of plain decoding: 0.05.", rich_help_panel=_SPECULATION
    ),
    verify_cost: str | None = typer.Option(
        None, help="Time of verifying, in steps of plain decoding; 1 by default.", rich_help_panel=_SPECULATION
    ),
    break_even_acceptance: str | None = typer.Option(
        None, help="Acceptance from which speculation is said to gain.", rich_help_panel=_SPECULATION
    ),
    gpu_price: str | None = typer.Option(
        None, help="Of one GPU-hour; by default the prices that the catalogue has seen.", rich_help_panel=_MONEY
    ),
    cost: str | None = typer.Option(None, help="Of a million output tokens.", rich_help_panel=_MONEY),
    baseline_cost: str | None = typer.Option(
        None, help="The same without speculation, or before.", rich_help_panel=_MONEY
    ),
    cost_change: str | None = typer.Option(None, help="Such as -53%.", rich_help_panel=_MONEY),
    tokens_per_month: str | None = typer.Option(None, help="Output tokens, such as 10B.", rich_help_panel=_MONEY),
    replicas: str | None = typer.Option(None, help="Servers that are said to be enough.", rich_help_panel=_MONEY),
    savings: str | None = typer.Option(None, help="Per month.", rich_help_panel=_MONEY),
    payback_weeks: str | None = typer.Option(None, help="Such as 6, or 4-6.", rich_help_panel=_MONEY),
    engineering_cost: str | None = typer.Option(
        None, help="One-off cost of switching speculation on.", rich_help_panel=_MONEY
    ),
    published: bool = typer.Option(False, "--published", help="Print published claims with their verdicts."),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
) -> None:
    """Check a published figure by arithmetic, memory and bandwidth. Give what the claim says; the rest may be missing.

    impossible: it breaks a bound (rent, memory, memory bandwidth, tokens per step). inconsistent: its figures do not
    belong together. consistent: they may be true. Figures other than counts and --gpu-price are taken as rounded at
    their last digit: 0.19 is .185 to .195. Exit code 3 unless consistent. Money is in the currency that you type.

    Example: specbench claim --gpu H200 --gpu-price 3.10 --tokens-per-second 38 --cost 0.19

    Example: specbench claim --speedup 2.89 --acceptance 0.81 --gamma 5 --draft-cost 0.05

    Keys of --json: inputs (as typed), verdict, findings, a list of {about, unit, verdict (null: it only follows),
    claimed and computed ({value, low, high} or null), working, true_if}. With --published: claims, a list of {claim,
    source, by (arithmetic or source), verdict, note, cases, a list of such objects}.
    """
    options = dict(locals())

    from specbench.claims.check import check
    from specbench.claims.claim import INPUTS, read_claim
    from specbench.claims.published import judge, published_claims
    from specbench.errors import SpecbenchError
    from specbench.hardware.catalogue import catalogue

    inputs = {name: options[name] for name in INPUTS if options[name] is not None}
    if published:
        if inputs or hardware:
            raise SpecbenchError("--published takes no figures and no hardware. Check yours without it.")
        _print_published([judge(p) for p in published_claims()], json_output)
        return
    report = check(read_claim(inputs, catalogue(hardware)))
    _print(inputs, report, json_output)
    raise typer.Exit(0 if report.verdict == "consistent" else 3)


def _print(inputs: dict[str, Any], report: Report, json_output: bool) -> None:
    import json

    if json_output:
        typer.echo(json.dumps(_case(inputs, report), indent=2, ensure_ascii=False))
        return
    typer.echo(f"{report.verdict.upper()}")
    for finding in report.findings:
        typer.echo(f"\n{finding.about}: {finding.verdict or 'it follows'}")
        for line in finding.working:
            typer.echo(f"  {line}")
        if finding.true_if:
            typer.echo(f"  It would be true with {', or '.join(finding.true_if)}.")


def _print_published(judgements: list[Judgement], json_output: bool) -> None:
    import json

    from specbench.cli.table import print_table

    if json_output:
        claims = [
            {
                **j.published.model_dump(mode="json", exclude={"inputs"}),
                "verdict": j.verdict,
                "cases": [_case(dict(i), r) for i, r in zip(j.published.inputs, j.reports, strict=True)],
            }
            for j in judgements
        ]
        typer.echo(json.dumps({"claims": claims}, indent=2, ensure_ascii=False))
        return
    rows = [(j.verdict, j.published.claim, j.published.note, j.published.source, j.published.by) for j in judgements]
    print_table("Published claims", ("verdict", "claim", "why", "source", "by"), rows)


def _case(inputs: dict[str, Any], report: Report) -> dict[str, Any]:
    return {"inputs": inputs, "verdict": report.verdict, "findings": list(map(_finding, report.findings))}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        **{"about": finding.about, "unit": finding.unit, "verdict": finding.verdict},
        **{"claimed": _figure(finding.claimed), "computed": _figure(finding.computed)},
        **{"working": finding.working, "true_if": finding.true_if},
    }


def _figure(figure: Figure | None) -> dict[str, float] | None:
    return None if figure is None else {"value": figure.value, "low": figure.low, "high": figure.high}
