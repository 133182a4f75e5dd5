"""What the decoder's kernels take of a GPU: compiled to machine code for the A100 and the H100, with no GPU here.

    python benchmarks/compile_kernels.py > benchmarks/results/kernels.json

Registers and spilled bytes are the assembler's, shared memory is Triton's; in bfloat16, in the shapes of Llama-3.1-8B
at batch 8, gamma 3 and 8192 slots.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import version

from specbench.decoder.kernels.aot import everything


def main() -> None:
    result = {
        "versions": {name: version(name) for name in ("torch", "triton")},
        "kernels": [asdict(kernel) for kernel in everything()],
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
