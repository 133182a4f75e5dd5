"""`specbench gpus`: the hardware catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.hardware.catalogue import Gpu


def gpus(
    name: str | None = typer.Argument(None, metavar="[GPU]", help="One of them, such as H200; all by default."),
    hardware: Path | None = typer.Option(
        None, metavar="FILE", help="Your own entries, or your own prices of known ones, as YAML."
    ),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
) -> None:
    """GPUs that specbench knows: memory, bandwidth, dense FLOP/s, and dated prices per GPU-hour.

    A file of your own adds to them or replaces fields, for example: {H200: {price: {low: 2.1, high: 2.1, seen:
    2026-06, source: our contract}}}. `specbench claim` takes the same file.

    Example: specbench gpus H200

    Keys of --json: gpus, a list of {name, memory_gib, bandwidth_tb_per_s, tflops {fp16, bf16, fp8, fp4}, watts, price
    {low, high, list, currency, seen, source}, aliases, source}; null where a figure is not known.
    """
    import json

    from specbench.cli.table import print_table
    from specbench.hardware.catalogue import catalogue, find_gpu

    known = catalogue(hardware)
    listed = [find_gpu(name, known)] if name else list(known.values())
    if json_output:
        typer.echo(json.dumps({"gpus": [gpu.model_dump(mode="json") for gpu in listed]}, indent=2))
        return
    columns = ("GPU", "GiB", "TB/s", "dense TFLOP/s", "W", "per hour (list)", "seen")
    print_table("GPUs", columns, map(_row, listed))


def _row(gpu: Gpu) -> tuple[str, ...]:
    rates = ", ".join(f"{precision} {rate:g}" for precision, rate in gpu.tflops.items())
    watts = f"{gpu.watts:g}" if gpu.watts else "-"
    return (gpu.name, f"{gpu.memory_gib:g}", f"{gpu.bandwidth_tb_per_s:g}", rates or "-", watts, *_price(gpu))


def _price(gpu: Gpu) -> tuple[str, str]:
    price = gpu.price
    if price is None:
        return "-", "-"
    span = f"{price.low:.2f}" if price.low == price.high else f"{price.low:.2f} to {price.high:.2f}"
    quoted = f" ({price.list:.2f})" if price.list else ""
    return f"{price.currency} {span}{quoted}", price.seen.replace("/", " to ")
