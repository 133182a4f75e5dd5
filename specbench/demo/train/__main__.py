"""Everything that the demo drafters are made of, from nothing but the demo target.

    python -m specbench.demo.train OUTPUT WORKLOADS

Prompts, the target's answers to them, summaries of some of those, an EAGLE-3 head, a draft model, EAGLE-1, Medusa and
MTP heads, and what they are worth on the prompt files in the folder WORKLOADS, none of which is trained on. About two
hours on 2 quiet cores; goes on where it was killed. `python -m specbench.demo.train.pack OUTPUT/eagle3 WORKLOADS`, and
the same for the other folders in OUTPUT, then puts them into the package.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

from specbench.demo.heads import INT8
from specbench.demo.target import demo_target
from specbench.demo.train.prompts import EVALUATED, template_prompts
from specbench.demo.train.summaries import summary_prompts
from specbench.store.atomic import replacing
from specbench.train.chat import ChatFormat
from specbench.train.loop import TrainSettings
from specbench.train.pipeline import Recipe, train_draft, train_method
from specbench.train.prepare import prepare
from specbench.workloads import load_workload

TEMPLATES, MAGPIE, SUMMARIES = 1500, 700, 60
MAX_TOKENS = 160
LAYERS = (0, 1, 2, 28, 29)
HEAD_EPOCHS, DRAFT_EPOCHS, INT8_EPOCHS = 4, 2, 3


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the demo's drafters.")
    parser.add_argument("output", type=Path)
    parser.add_argument("workloads", type=Path)
    parts = ("data", "eagle3", "draft_model", *INT8)
    parser.add_argument("--only", choices=parts, help="stop after, or do only, one part")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    output, only = arguments.output, arguments.only
    output.mkdir(parents=True, exist_ok=True)
    target, data = demo_target(), output / "data"
    evaluate = tuple(arguments.workloads / f"{name}.jsonl" for name in EVALUATED)
    templates, summaries = output / "templates.jsonl", output / "summaries.jsonl"
    if not summaries.exists():
        _write(templates, islice(template_prompts(), TEMPLATES))
        kept_out = [prompt for file in evaluate for prompt in load_workload(file).prompts]
        recording = prepare(target, (templates,), MAGPIE, kept_out, data, MAX_TOKENS)
        chat = ChatFormat.from_directory(target)
        _write(summaries, islice(summary_prompts(recording.shards, chat), SUMMARIES))

    def recipe(method: str, settings: TrainSettings, evaluate: tuple[Path, ...] = ()) -> Recipe:
        return Recipe(
            target=target,
            target_name="demo",
            output=output / method,
            data=data,
            prompts=(templates, summaries),
            magpie=MAGPIE,
            evaluate=evaluate,
            max_tokens=MAX_TOKENS,
            settings=settings,
        )

    if only in (None, "eagle3"):
        train_method(recipe("eagle3", TrainSettings(epochs=HEAD_EPOCHS), evaluate), "eagle3")
    # The rest is judged when it is packed, as the int8 that ships.
    if only in (None, "draft_model"):
        train_draft(recipe("draft_model", TrainSettings(epochs=DRAFT_EPOCHS, learning_rate=1e-3)), LAYERS)
    for method in INT8:
        if only in (None, method):
            train_method(recipe(method, TrainSettings(epochs=INT8_EPOCHS, batch_tokens=1024)), method)


def _write(file: Path, lines: Iterable[Mapping[str, object]]) -> None:
    with replacing(file) as partial:
        partial.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main()
