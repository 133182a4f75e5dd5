"""Writes arctic_drafts.json: what arctic-inference itself drafts, for `test_suffix.py` to compare with.

    pip install --no-deps arctic-inference==0.3.0 numpy
    python tests/decoder/arctic_drafts.py

It stands alone, so that it runs in an environment of its own: arctic-inference is compiled when it is installed.
"""

from __future__ import annotations

import json
import random
from importlib.metadata import version
from pathlib import Path
from typing import Any

from arctic_inference.suffix_decoding import SuffixDecodingCache

LIMITS = (1, 2, 3, 5, 8)
CASES = 32


def main() -> None:
    report = {
        "arctic_inference": version("arctic-inference"),
        "limits": LIMITS,
        "cases": [_case(random.Random(seed)) for seed in range(CASES)],
    }
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(report, separators=(",", ":")).replace('{"rule"', '\n{"rule"') + "\n", encoding="utf-8")


def _case(chance: random.Random) -> dict[str, Any]:
    """A few requests that come, grow by what seem to be steps, and end, some at the same time."""
    rule = {
        "depth": chance.choice([4, 8, 24]),
        "factor": chance.choice([1.0, 1.0, 2.0, 0.5]),
        "offset": chance.choice([0.0, 0.0, 1.0]),
        "min_prob": chance.choice([0.1, 0.1, 0.3, 0.0]),
    }
    cached, vocabulary = chance.choice([0, 0, 1, 2, 4]), chance.choice([2, 3, 6])
    cache = SuffixDecodingCache(max_tree_depth=rule["depth"], max_cached_requests=cached)
    texts: dict[int, list[int]] = {}
    events: list[dict[str, Any]] = []
    for number in range(40):
        if len(texts) == 0 or chance.random() < 0.1:
            prompt = [chance.randrange(vocabulary) for _ in range(chance.randrange(1, 20))]
            cache.start_request(number, prompt)
            texts[number] = list(prompt)
            events.append({"begin": number, "prompt": prompt})
        elif len(texts) > 1 and chance.random() < 0.1:
            ended = chance.choice(list(texts))
            cache.stop_request(ended)
            del texts[ended]
            events.append({"end": ended})
        request, text = chance.choice(list(texts.items()))
        emitted = [chance.choice([chance.randrange(vocabulary), text[-3:][0]]) for _ in range(chance.randrange(1, 5))]
        cache.add_active_response(request, emitted)
        text += emitted
        drafts = [
            cache.speculate(
                request,
                text[-rule["depth"] :],
                max_spec_tokens=limit,
                max_spec_factor=rule["factor"],
                max_spec_offset=rule["offset"],
                min_token_prob=rule["min_prob"],
            ).token_ids
            for limit in LIMITS
        ]
        events.append({"request": request, "emitted": emitted, "drafts": [list(draft) for draft in drafts]})
    return {"rule": rule, "cached_requests": cached, "events": events}


if __name__ == "__main__":
    main()
