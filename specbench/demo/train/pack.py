"""From a finished training to what the package carries.

    python -m specbench.demo.train.pack TRAINED

TRAINED is the --output of `specbench train eagle3`. Only what was trained is kept; `demo.heads` makes it whole.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from specbench.demo.heads import TOKEN_IDS, WEIGHTS
from specbench.train.pipeline import REPORT


def pack(trained: Path, weights: Path) -> None:
    """Write `weights` and, beside it, the training's report under the same name."""
    tensors = load_file(trained / "safeailab" / "model.safetensors")
    offsets = tensors.pop("d2t")
    for derived in ("lm_head.weight", "t2d"):
        del tensors[derived]
    tensors[TOKEN_IDS] = (offsets + torch.arange(len(offsets))).to(torch.int32)
    weights.parent.mkdir(exist_ok=True)
    save_file(tensors, weights)
    shutil.copyfile(trained / REPORT, weights.with_suffix(".json"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Put a trained demo head into the package.")
    parser.add_argument("trained", type=Path)
    pack(parser.parse_args().trained, WEIGHTS)


if __name__ == "__main__":
    main()
