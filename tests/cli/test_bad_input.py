"""Twenty things that people get wrong: each one clear sentence, exit code 1, no traceback, nothing started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

GOOD = '{"id": "a", "messages": [{"role": "user", "content": "Hello"}]}\n'

FILES = {
    "good.jsonl": GOOD,
    "empty.jsonl": "",
    "broken.jsonl": GOOD + '{"id": "b", "messages": [\n',
    "string.jsonl": GOOD + '{"id": "b", "messages": "Hello"}\n',
    "both.jsonl": '{"id": "a", "prompt": "x", "messages": [{"role": "user", "content": "x"}]}\n',
    "neither.jsonl": '{"id": "a"}\n',
    "twice.jsonl": GOOD + GOOD,
    "unknown.jsonl": '{"id": "a", "prompt": "x", "max_token": 5}\n',
    "negative.jsonl": '{"id": "a", "prompt": "x", "max_tokens": -5}\n',
    "typo.yaml": "workload: good.jsonl\ngama: 4\n",
    "kwargs.jsonl": '{"id": "a", "prompt": "x", "chat_template_kwargs": 5}\n',
    "twice.yaml": "workload: good.jsonl\ngamma: 2\ngamma: 4\n",
    "home.yaml": "workload: ~nouser/p.jsonl\n",
    "broken.yaml": "workload: [good.jsonl\n",
}

SWEEP = ("sweep", "--workload", "good.jsonl")

MISTAKES = {
    "no workload": (("sweep",), "no workload given. Pass --workload FILE"),
    "missing workload": (("sweep", "--workload", "nowhere.jsonl"), "no workload file nowhere.jsonl"),
    "empty workload": (("sweep", "--workload", "empty.jsonl"), "empty.jsonl has no prompts"),
    "broken JSON": (("sweep", "--workload", "broken.jsonl"), "broken.jsonl:2:"),
    "messages is a string": (("sweep", "--workload", "string.jsonl"), 'string.jsonl:2: "messages" must be a list'),
    "prompt and messages": (("sweep", "--workload", "both.jsonl"), "both.jsonl:1:"),
    "neither prompt nor messages": (("sweep", "--workload", "neither.jsonl"), "neither.jsonl:1:"),
    "the same id twice": (("sweep", "--workload", "twice.jsonl"), "twice.jsonl:2:"),
    "unknown field": (("sweep", "--workload", "unknown.jsonl"), "max_token"),
    "negative max_tokens": (("sweep", "--workload", "negative.jsonl"), "negative.jsonl:1:"),
    "unknown backend": ((*SWEEP, "--backend", "vlm"), "unknown backend 'vlm'. Choose from: reference"),
    "unknown method": ((*SWEEP, "--method", "lookahead"), "unknown method 'lookahead'"),
    "gamma zero": ((*SWEEP, "--gamma", "0"), "--gamma"),
    "gamma is a word": ((*SWEEP, "--gamma", "two"), "--gamma: expected whole numbers"),
    "draft model without one": ((*SWEEP, "--method", "draft_model"), "--drafter draft_model=DIRECTORY"),
    "drafter without a method": ((*SWEEP, "--drafter", "./draft"), "--drafter: expected METHOD=DIRECTORY"),
    "target not there": ((*SWEEP, "--target", "./no-such-model"), "no model directory './no-such-model'"),
    "target is no model": ((*SWEEP, "--target", "."), "it has no config.json"),
    "unknown option in the file": (("sweep", "--config", "typo.yaml"), "typo.yaml: unknown option 'gama'"),
    "broken YAML": (("sweep", "--config", "broken.yaml"), "broken.yaml: not valid YAML"),
    "missing config": (("sweep", "--config", "nowhere.yaml"), "nowhere.yaml: No such file"),
    "resume without a run": ((*SWEEP, "--resume"), "name it with --output RUN"),
    "resume of nothing": (("sweep", "--resume", "--output", "nowhere"), "nowhere"),
    "impossible price": ((*SWEEP, "--gpu-price", "0"), "--gpu-price"),
    "impossible time": ((*SWEEP, "--ready-timeout", "soon"), "--ready-timeout: expected a time such as"),
    "template options are a number": (
        ("workload", "show", "kwargs.jsonl"),
        'kwargs.jsonl:1: "chat_template_kwargs" must be an object',
    ),
    "too hot": ((*SWEEP, "--temperature", "3"), "--temperature: Input should be less than or equal to 2; got 3.0"),
    "infinitely hot": ((*SWEEP, "--temperature", "inf"), "--temperature"),
    "no nucleus": ((*SWEEP, "--top-p", "1e-300"), "--top-p"),
    "a seed of 65 bits": ((*SWEEP, "--seed", str(2**64)), "--seed"),
    "too many threads": ((*SWEEP, "--threads", "100000"), "--threads"),
    "longer than the model": ((*SWEEP, "--max-model-len", "10000"), "Its limit is 8192"),
    "an open quotation": ((*SWEEP, "--engine-arg", "'"), "--engine-arg: no shell could split '"),
    "a target at nobody's": ((*SWEEP, "--target", "~nouser/x"), "there is no home directory ~nouser"),
    "a drafter at nobody's": (
        (*SWEEP, "--method", "draft_model", "--drafter", "draft_model=~nouser/x"),
        "there is no home directory ~nouser",
    ),
    "an interpreter at nobody's": (
        (*SWEEP, "--backend", "vllm", "--python", "~nouser/x"),
        "there is no home directory ~nouser",
    ),
    "a command with a target at nobody's": (
        ("backend", "command", "--target", "~nouser/x"),
        "there is no home directory ~nouser",
    ),
    "a workload at nobody's": (("sweep", "--config", "home.yaml"), "there is no home directory ~nouser"),
    "a key twice": (("sweep", "--config", "twice.yaml"), "twice.yaml:3: 'gamma' is given twice"),
    "no name of a workload": (("sweep", "--workload", ""), "--workload: expected names separated by commas; got ''"),
    "no gamma": ((*SWEEP, "--gamma", ""), "--gamma: expected names separated by commas; got ''"),
    "report of nothing": (("report", "nowhere"), "nowhere"),
    "workload show of nothing": (("workload", "show", "nowhere.jsonl"), "no workload file nowhere.jsonl"),
    "a server without a drafter": (("serve", "--method", "draft_model", "--gamma", "2"), "needs a drafter"),
    "a scenario on a device": (("serve", "--scenario", "x.yaml", "--device", "cuda"), "--device is the decoder's"),
    "a server with kernels of another kind": (("serve", "--kernels", "on"), "--kernels=off or --kernels=auto"),
    "a learning rate beyond all numbers": (
        ("train", "medusa", "--output", "o", "--learning-rate", "1e308"),
        "--learning-rate must be above 0 and at most 1; got 1e+308",
    ),
    "a memory of n-grams": (
        ("serve", "--method", "ngram", "--gamma", "2", "--suffix-cached-requests", "8"),
        "method ngram keeps no earlier responses",
    ),
    "a server with gamma 0": (("serve", "--method", "ngram"), "gamma must be at least 1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_is_one_clear_sentence(mistake: str, specbench, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    arguments, sentence = MISTAKES[mistake]
    result = specbench(*arguments)
    assert result.returncode == 1, result.stderr
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert {p.name for p in tmp_path.iterdir()} == set(FILES)


def test_a_draft_model_with_another_vocabulary_is_refused_before_anything_starts(
    specbench,  # type: ignore[no-untyped-def]
    demo_target: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / "good.jsonl").write_text(GOOD)
    draft = tmp_path / "draft"
    draft.mkdir()
    config = json.loads((demo_target / "config.json").read_text())
    (draft / "config.json").write_text(json.dumps({**config, "vocab_size": 1000}))
    result = specbench(*SWEEP, "--method", "draft_model", "--drafter", "draft_model=./draft")
    assert result.returncode == 1
    assert "vocabulary" in result.stderr
    assert "1000" in result.stderr
