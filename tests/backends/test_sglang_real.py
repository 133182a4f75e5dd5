"""SGLang's own parser and resolver, in its parser-only environment: what it makes of the adapter's command lines.

`specbench backend install sglang --parser-only` makes that environment. The resolver decides for a GPU (--device cuda),
and needs none for it.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specbench.backends.base import Command, EngineOptions, Launch
from specbench.backends.environments import installed
from specbench.backends.sglang import SglangBackend, graph_ladder
from specbench.backends.sglang_refusals import GONE, OWNED
from specbench.speculation import DRAFTERLESS, Speculation

pytestmark = pytest.mark.sglang

HERE = Path(__file__).parent
FLAGS = HERE.parents[0] / "contract_servers" / "sglang_flags.json"
MODEL = {
    **{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256, "hidden_act": "silu"},
    **{"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "dtype": "bfloat16"},
}
EAGLE3 = ("--speculative-algorithm", "EAGLE3")
CHAIN = ("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4")

WRONG = {
    "lookahead": (("--speculative-algorithm", "LOOKAHEAD", *CHAIN), "ValueError", "Unknown speculative algorithm"),
    "draft tokens alone": ((*EAGLE3, "--speculative-num-draft-tokens", "4"), "AssertionError", ""),
    "steps alone": ((*EAGLE3, "--speculative-num-steps", "3"), "TypeError", "'>' not supported between instances"),
    "max-bs": (("--cuda-graph-max-bs", "8"), "exit 2", "ambiguous option: --cuda-graph-max-bs could match"),
    "bs": (("--cuda-graph-bs", "8"), "exit 2", "ambiguous option: --cuda-graph-bs could match"),
    "window": (("--speculative-ngram-max-match-window-size", "8"), "exit 2", "unrecognized arguments"),
    "draft model, sampled drafts": (
        ("--speculative-algorithm", "STANDALONE", *CHAIN, "--speculative-use-rejection-sampling"),
        *("NotImplementedError", "only supported for EAGLE / EAGLE3 / NEXTN"),
    ),
    "threshold, sampled drafts": (
        (*EAGLE3, *CHAIN, "--speculative-use-rejection-sampling", "--speculative-accept-threshold-acc", "0.5"),
        *("ValueError", "incompatible with --speculative-accept-threshold-single"),
    ),
    "pages of 16 under a tree": (
        (
            *("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "5", "--page-size", "16"),
            *("--speculative-ngram-max-bfs-breadth", "4"),
        ),
        *("ValueError", "is unstable"),
    ),
}
"""Of the contract's errors, each as SGLang raises it: what would be seen without our refusals."""


class Answers:
    """What SGLang said, asked once for all."""

    def __init__(self, folder: Path, python: Path) -> None:
        (folder / "config.json").write_text(json.dumps(MODEL))
        self.target = folder
        self.launch = Launch(
            target=folder,
            target_name="target",
            max_batch_size=12,
            dtype="bfloat16",
            device="cuda",
            options=EngineOptions(python=Path("/env/bin/python"), memory_fraction=0.85),
        )
        arms = (None, *METHODS)
        asked = {method: self.words(self.command(method)) for method in arms}
        asked["schedule"] = self.words(self.command("eagle3", "1=4+5=2+9=0"))
        asked["as deployed"] = self.words(SglangBackend().command(replace(self.launch, matched=False)))
        plain = ["--model-path", str(folder), "--device", "cuda"]
        asked |= {name: [*plain, *self.drafter(words), *words] for name, (words, _, _) in WRONG.items()}
        done = subprocess.run(
            [python, HERE / "resolve_sglang.py"],
            input=json.dumps(list(asked.values())),
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        told = json.loads(done.stdout.splitlines()[-1])
        self.flags = told["flags"]
        self.of: dict[str | None, Any] = dict(zip(asked, told["answers"], strict=True))

    def command(self, method: str | None, schedule: str | None = None) -> Command:
        drafter = None if method in (None, *DRAFTERLESS) else str(self.target)
        speculation = Speculation(method, 4, drafter, schedule=schedule) if method else Speculation()
        return SglangBackend().command(replace(self.launch, speculation=speculation))

    def words(self, command: Command) -> list[str]:
        """After `sglang serve`, with the files of the launch in place."""
        for name, text in command.files.items():
            (self.target / name).write_text(text)
        places = {"{port}": "30000", "{files}": str(self.target)}
        filled = [
            word.replace("{port}", places["{port}"]).replace("{files}", places["{files}"]) for word in command.argv
        ]
        return filled[2:]

    def drafter(self, words: tuple[str, ...]) -> list[str]:
        needs = {"EAGLE3", "STANDALONE"} & set(words)
        return ["--speculative-draft-model-path", str(self.target)] if needs else []


METHODS = tuple(method for method in SglangBackend.methods if method != "none")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    environments = [e for e in installed("sglang") if not e.runs]
    if not environments:
        pytest.skip("SGLang's parser is not here: specbench backend install sglang --parser-only")
    return Answers(tmp_path_factory.mktemp("model"), environments[0].python)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_a_chain_of_gamma_as_sglang_resolves_it(answers: Answers, method: str) -> None:
    resolved = answers.of[method]["resolved"]
    assert resolved.get("error") is None, resolved
    assert resolved["speculative_num_draft_tokens"] == 5
    assert resolved["speculative_eagle_topk"] == 1
    assert resolved["speculative_num_steps"] == 4
    want = {"ngram": "NGRAM", "draft_model": "STANDALONE", "eagle3": "EAGLE3", "eagle": "EAGLE", "mtp": "EAGLE"}
    assert resolved["speculative_algorithm"] == want[method]


def test_arms_differ_in_their_speculation_alone_after_sglang_has_resolved_them(answers: Answers) -> None:
    baseline = answers.of[None]["resolved"]
    # Seed and free ports are drawn anew; mixed chunks are off in both, as they are unless asked for.
    drawn = {"random_seed", "nccl_port", "instance_id"}
    for method in METHODS:
        arm = answers.of[method]["resolved"]
        differ = {name for name in baseline if arm.get(name) != baseline[name]} - drawn
        assert {name for name in differ if not name.startswith("speculative_")} == set(), method
    assert baseline["max_running_requests"] == 12
    assert baseline["cuda_graph_bs_decode"] == graph_ladder(12)
    assert baseline["mem_fraction_static"] == 0.85
    assert baseline["disable_radix_cache"] is True


def test_left_to_itself_sglang_would_not_give_both_arms_the_same(answers: Answers) -> None:
    """Why the matched arms say so much."""
    alone = answers.of["as deployed"]["resolved"]
    assert alone["disable_radix_cache"] is False
    assert alone["cuda_graph_bs_decode"] is None


def test_a_schedule_is_taken_and_not_dropped(answers: Answers) -> None:
    resolved = answers.of["schedule"]["resolved"]
    assert resolved["speculative_adaptive"] is True
    assert resolved["speculative_num_draft_tokens"] == 5


@pytest.mark.parametrize("name", WRONG)
def test_the_errors_that_are_refused_before_a_start_are_sglang_s_own(answers: Answers, name: str) -> None:
    _, error, message = WRONG[name]
    found = answers.of[name]["resolved"]
    assert found["error"] == error
    assert message in found["message"]


def test_flags_that_specbench_owns_are_sglang_s_and_those_of_old_articles_are_not(answers: Answers) -> None:
    known = {name for flag in answers.flags for name in flag["flags"]}
    assert set(OWNED) <= known
    assert not set(GONE) & known
    written = {
        word for method in (None, *METHODS) for word in answers.words(answers.command(method)) if word[:2] == "--"
    }
    others = {"--speculative-ngram-max-bfs-breadth"}
    assert written <= set(OWNED) | others
    aliases = {name for flag in answers.flags if set(flag["flags"]) & written for name in flag["flags"]}
    assert aliases <= set(OWNED) | others


def test_the_contract_server_knows_the_flags_that_sglang_knows(answers: Answers) -> None:
    assert json.loads(FLAGS.read_text()) == answers.flags
