"""Every kernel compiled to machine code for GPUs that need not be here, and what it takes of them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from specbench.decoder.kernels.attention import attend
from specbench.decoder.kernels.greedy import greedy
from specbench.decoder.kernels.launch import Launch, recording
from specbench.decoder.kernels.norm import add_norm
from specbench.decoder.kernels.rejection import rejection
from specbench.decoder.kernels.rotary import rotate_and_write
from specbench.decoder.kernels.silu import silu_mul

TARGETS = (80, 90)
"""Compute capabilities of the A100 (8.0), and of the H100 and H200 (9.0)."""

_TYPES = {
    torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.int32: "i32", torch.int64: "i64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel on one target.

    registers: of each thread · shared_bytes: of each program · spilled_bytes: registers' overflow to memory, written
    """

    kernel: str
    capability: int
    warps: int
    registers: int
    shared_bytes: int
    spilled_bytes: int
    code_bytes: int


def launches(batch: int, gamma: int, context: int, dtype: torch.dtype) -> list[Launch]:
    """What the kernels launch in a step of Llama-3.1-8B, each kernel once."""
    hidden, ffn, heads, kv_heads, dim, vocab = 4096, 14336, 32, 8, 128, 128_256
    width = gamma + 1
    tokens = batch * width

    def empty(*shape: int, kind: torch.dtype = dtype) -> Tensor:
        return torch.empty(shape, dtype=kind, device="meta")

    ids, at = empty(batch, gamma, kind=torch.int64), empty(batch, width, kind=torch.int64)
    logits, x = empty(batch, width, vocab), empty(tokens, hidden)
    entries = empty(batch, context, 2, kv_heads, dim)
    with recording() as recorded:
        add_norm(x, x, empty(hidden), 1e-5)
        rotate_and_write(
            empty(tokens, heads + 2 * kv_heads, dim), empty(tokens, 1, dim // 2, kind=torch.complex64),
            entries.flatten(0, 1), at.flatten(), heads,
        )  # fmt: skip
        attend(empty(batch, width, heads, dim), entries, empty(batch, context, kind=torch.int64), at.flatten(), at)
        silu_mul(empty(tokens, ffn), empty(tokens, ffn))
        greedy(logits, ids)
        temperature, seeds = empty(batch, kind=torch.float32), empty(batch, kind=torch.int64)
        rejection(logits, logits[:, :gamma].contiguous(), ids, temperature, seeds, at)
    return list({kernel_name(launch): launch for launch in recorded}.values())


def compiled(launch: Launch, capability: int) -> Compiled:
    """Compile what a launch would run. Needs no GPU and no driver: Triton brings its own assembler."""
    found = triton.compile(
        _source(launch), target=GPUTarget("cuda", capability, 32), options={"num_warps": launch.warps}
    )
    registers, spilled = _registers(found.asm["ptx"])
    name, code = kernel_name(launch), len(found.asm["cubin"])
    return Compiled(name, capability, launch.warps, registers, found.metadata.shared, spilled, code)


def everything(dtype: torch.dtype = torch.bfloat16) -> Iterator[Compiled]:
    """Each kernel for each target, at batch 8, gamma 3 and 8192 slots."""
    for capability in TARGETS:
        for launch in launches(8, 3, 8192, dtype):
            yield compiled(launch, capability)


def kernel_name(launch: Launch) -> str:
    # Kernels of two files are called _walk.
    return f"{launch.kernel.fn.__module__.rpartition('.')[2]}.{launch.kernel.fn.__name__.lstrip('_')}"


def _source(launch: Launch) -> ASTSource:
    """With the types and the divisibility by 16 that a launch with these arguments is specialised for."""
    arguments = dict(zip(launch.kernel.arg_names, launch.arguments, strict=False))
    types, aligned = {}, {}
    for place, name in enumerate(launch.kernel.arg_names):
        match arguments.get(name):
            case Tensor() as tensor:
                types[name] = "*" + _TYPES[tensor.dtype]
                aligned[(place,)] = [["tt.divisibility", 16]]
            case float():
                types[name] = "fp32"
            case int() as number:
                types[name] = "i32"
                if number % 16 == 0:
                    aligned[(place,)] = [["tt.divisibility", 16]]
            case _:
                types[name] = "constexpr"
    return ASTSource(launch.kernel, types, constexprs=launch.constants, attrs=aligned)


def _registers(ptx: str) -> tuple[int, int]:
    """Registers per thread and bytes spilled, as the assembler tells them; Triton itself asks a loaded GPU."""
    found = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)
    assert found is not None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx, encoding="utf-8")
        told = subprocess.run(
            [triton.knobs.nvidia.ptxas.path, "-v", f"--gpu-name={found[1]}", source, "-o", Path(folder, "cubin")],
            capture_output=True, text=True, check=True,
        ).stderr  # fmt: skip
    used, spilled = re.search(r"Used (\d+) registers", told), re.search(r"(\d+) bytes spill stores", told)
    assert used is not None, told
    return int(used[1]), int(spilled[1]) if spilled else 0
