"""A draft model without training: the target with some of its layers left out.

    python -m specbench.demo.pruned_draft --output DIR [--target demo] [--layers 0,1,2,…]

Layers are what differs; embeddings, head and tokenizer are the target's, so the vocabularies agree. Such a drafter is
poor and dear, but real: nothing about it is simulated.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from specbench.errors import SpecbenchError

DEMO_LAYERS = tuple(layer for layer in range(30) if layer not in (10, 14, 18, 22))
"""26 of the demo target's 30 layers."""


def prune_layers(target: Path, output: Path, layers: Sequence[int]) -> None:
    """Write a copy of the Hugging Face directory `target` that keeps only `layers`, renumbered in the given order."""
    from safetensors.torch import load_file, save_file

    config = json.loads((target / "config.json").read_text())
    if not layers or not all(0 <= layer < config["num_hidden_layers"] for layer in layers):
        raise SpecbenchError(f"layers must be among 0 to {config['num_hidden_layers'] - 1}; got {list(layers)}.")
    output.mkdir(parents=True, exist_ok=True)
    new_number = {old: new for new, old in enumerate(layers)}
    tensors = {}
    for file in sorted(target.glob("*.safetensors")):
        for name, tensor in load_file(file).items():
            match = re.search(r"\blayers\.(\d+)\.", name)
            if match is None:
                tensors[name] = tensor
            elif (layer := int(match[1])) in new_number:
                tensors[f"{name[: match.start(1)]}{new_number[layer]}{name[match.end(1) :]}"] = tensor
    save_file(tensors, output / "model.safetensors", metadata={"format": "pt"})
    kinds = {"layer_types": [config["layer_types"][layer] for layer in layers]} if config.get("layer_types") else {}
    copy_settings(target, output, num_hidden_layers=len(layers), **kinds)


def copy_settings(target: Path, output: Path, **changed: object) -> None:
    """Copy everything but weights from one model's directory to another; `changed` are fields of its config.json."""
    config = json.loads((target / "config.json").read_text("utf-8"))
    for file in target.iterdir():
        if file.suffix in (".json", ".jinja", ".txt", ".model") and "safetensors" not in file.name:
            shutil.copy(file, output)
    (output / "config.json").write_text(json.dumps({**config, **changed}, indent=2) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a layer-pruned copy of a target, to be used as a draft model.")
    parser.add_argument("--target", default="demo")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--layers", default=",".join(map(str, DEMO_LAYERS)))
    arguments = parser.parse_args()

    from specbench.target import resolve_target

    layers = [int(layer) for layer in arguments.layers.split(",")]
    prune_layers(resolve_target(arguments.target), arguments.output, layers)


if __name__ == "__main__":
    main()
