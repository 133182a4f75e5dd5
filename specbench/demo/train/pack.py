"""From a finished training to what the package carries.

    python -m specbench.demo.train.pack TRAINED

TRAINED is the --output of `specbench train eagle3` or `specbench train draft-model`. Only what was trained is kept;
`demo.heads` and `demo.draft_model` make it whole.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from specbench.demo import draft_model, heads
from specbench.demo.materialise import TOKEN_IDS
from specbench.train.draft_files import EMBEDDINGS, HEAD, OFFSETS
from specbench.train.draft_model import REDUCED
from specbench.train.pipeline import REPORT


def pack(trained: Path) -> None:
    """Write the package's weights and, beside them, the training's report under the same name."""
    if (trained / REDUCED).exists():
        weights, tensors = draft_model.WEIGHTS, load_file(trained / REDUCED / "model.safetensors")
        offsets = tensors.pop(OFFSETS)
        del tensors[EMBEDDINGS], tensors[HEAD]
        tensors = draft_model.quantized(tensors)
    else:
        weights, tensors = heads.WEIGHTS, load_file(trained / "safeailab" / "model.safetensors")
        offsets = tensors.pop(OFFSETS)
        del tensors[HEAD], tensors["t2d"]
    tensors[TOKEN_IDS] = (offsets + torch.arange(len(offsets))).to(torch.int32)
    save_file(tensors, weights)
    shutil.copyfile(trained / REPORT, weights.with_suffix(".json"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Put a trained demo drafter into the package.")
    parser.add_argument("trained", type=Path)
    pack(parser.parse_args().trained)


if __name__ == "__main__":
    main()
