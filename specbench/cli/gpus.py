"""`specbench gpus`: the hardware catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from specbench.errors import SpecbenchError

if TYPE_CHECKING:
    from specbench.hardware.catalogue import Gpu


def gpus(
    name: str | None = typer.Argument(None, metavar="[GPU]", help="One of them, such as H200; all by default."),
    hardware: Path | None = typer.Option(
        None, metavar="FILE", help="Your own entries, or your own prices of known ones, as YAML."
    ),
    measure: bool = typer.Option(
        False,
        "--measure",
        help="Measure this machine instead, GPU or CPU: bandwidth, products of matrices, starting small work. Takes "
        "seconds; needs PyTorch, and a machine that does nothing else.",
    ),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
) -> None:
    """GPUs that specbench knows: memory, bandwidth, dense FLOP/s, and dated prices per GPU-hour.

    A file of your own adds to them or replaces fields, for example: {H200: {price: {low: 2.1, high: 2.1, seen:
    2026-06, source: our contract}}}. `specbench claim` takes the same file.

    Example: specbench gpus H200

    Example: specbench gpus --measure > here.yaml

    Keys of --json: gpus, a list of {name, memory_gib, bandwidth_tb_per_s, tflops {fp32, fp16, bf16, fp8, fp4}, watts,
    price {low, high, list, currency, seen, source}, aliases, source}; null where a figure is not known. With
    --measure: name, memory (bytes), bandwidth (bytes/s), flops {fp32, and bf16 on a GPU} (per second), launch_seconds,
    and entry, as a file for --hardware has it.
    """
    import json

    from specbench.cli.table import print_table
    from specbench.hardware.catalogue import catalogue, find_gpu

    if measure:
        if name or hardware:
            raise SpecbenchError("--measure is of this machine: leave GPU and --hardware out.")
        _measure(json_output)
        return
    known = catalogue(hardware)
    listed = [find_gpu(name, known)] if name else list(known.values())
    if json_output:
        typer.echo(json.dumps({"gpus": [gpu.model_dump(mode="json") for gpu in listed]}, indent=2))
        return
    columns = ("GPU", "GiB", "TB/s", "dense TFLOP/s", "W", "per hour (list)", "seen")
    print_table("GPUs", columns, map(_row, listed))


def _measure(json_output: bool) -> None:
    import json

    import yaml

    try:
        from specbench.hardware.measure import measure_rates
    except ImportError as error:
        raise SpecbenchError("--measure needs PyTorch: pip install '.[reference]'.") from error

    found = measure_rates()
    if json_output:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    typer.echo(f"# Starting an operation takes {found.launch_seconds * 1e6:.2g} µs. A file for --hardware:")
    typer.echo(yaml.safe_dump(found.catalogue_entry(), sort_keys=False).rstrip())


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
