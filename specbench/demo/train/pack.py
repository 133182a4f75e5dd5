"""From a finished training to what the package carries.

    python -m specbench.demo.train.pack TRAINED WORKLOADS

TRAINED is the --output of `specbench train`, by any method. Only what was trained is kept;
`demo.heads` and `demo.draft_model` make it whole.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specbench.demo import draft_model, heads
from specbench.demo.materialise import TOKEN_IDS
from specbench.demo.target import demo_target
from specbench.demo.train.prompts import EVALUATED
from specbench.drafter import resolve_drafter
from specbench.store.run import write_json
from specbench.train.acceptance import measure_acceptance
from specbench.train.draft_files import EMBEDDINGS, HEAD, OFFSETS
from specbench.train.draft_model import REDUCED
from specbench.train.pipeline import EVALUATION_PROMPTS, EVALUATION_TOKENS, REPORT
from specbench.train.pipeline import HEAD as ONE_LAYOUT
from specbench.train.report import PromptSet, acceptance_row
from specbench.workloads import load_workload


def pack(trained: Path, workloads: Path) -> None:
    """Write the package's weights and, beside them, the training's report under the same name."""
    report = json.loads((trained / REPORT).read_text("utf-8"))
    if (trained / REDUCED).exists():
        weights, tensors = draft_model.WEIGHTS, load_file(trained / REDUCED / "model.safetensors")
        offsets = tensors.pop(OFFSETS)
        del tensors[EMBEDDINGS], tensors[HEAD]
        tensors = draft_model.quantized(tensors)
        tensors[TOKEN_IDS] = (offsets + torch.arange(len(offsets))).to(torch.int32)
    elif (trained / ONE_LAYOUT).exists():
        weights, tensors = heads.weights(report["method"]), load_file(trained / ONE_LAYOUT / "model.safetensors")
        tensors = quantized_head(tensors)
    else:
        weights, tensors = heads.WEIGHTS, load_file(trained / "safeailab" / "model.safetensors")
        offsets = tensors.pop(OFFSETS)
        del tensors[HEAD], tensors["t2d"]
        tensors[TOKEN_IDS] = (offsets + torch.arange(len(offsets))).to(torch.int32)
    save_file(tensors, weights)
    if weights != heads.WEIGHTS:
        report |= _judged(workloads, report["method"], report["gamma"])
    write_json(weights.with_suffix(".json"), report)


def quantized_head(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Of an EAGLE-1, MTP or Medusa head what is its own, as int8. tensors: of its model.safetensors"""
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith("lm_heads.")}
    packed = draft_model.quantized(own)
    return {name: t.to(torch.int32) if t.dtype == torch.int64 else t for name, t in packed.items()}


def _judged(folder: Path, method: str, gamma: int) -> dict[str, Any]:
    """What a drafter is worth as it ships, rounded to int8; the draft model with its whole vocabulary."""
    workloads = [load_workload(folder / f"{name}.jsonl") for name in EVALUATED]
    target, drafter = demo_target(), resolve_drafter(method, "demo")
    prompts = {w.name: w.prompts[:EVALUATION_PROMPTS] for w in workloads}
    return {
        "evaluated_on": [asdict(PromptSet(w.path.name, w.sha256, len(prompts[w.name]))) for w in workloads],
        "acceptance": {
            name: acceptance_row(measure_acceptance(target, method, drafter, gamma, some, EVALUATION_TOKENS))
            for name, some in prompts.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Put a trained demo drafter into the package.")
    parser.add_argument("trained", type=Path)
    parser.add_argument("workloads", type=Path, help="folder of the prompt files that it is judged by")
    arguments = parser.parse_args()
    pack(arguments.trained, arguments.workloads)


if __name__ == "__main__":
    main()
