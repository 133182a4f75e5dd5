"""Engines' logs in plain words. The logs are excerpts of real ones."""

from __future__ import annotations

import pytest

from specbench.backends.explain import explain


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("OSError: [Errno 98] Address already in use", "The port is taken"),
        ("api_server.py: error: unrecognized arguments: --frobnicate 3", "does not know --frobnicate 3"),
        (
            "ValueError: Target and draft model should have the same vocabulary size. Target model vocab_size=49152.",
            "another vocabulary than the target",
        ),
        (
            "ValueError: To serve at least one request with the models's max seq len (2048), (0.09 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (0.05 GiB).",
            "cannot hold one request",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", "Out of memory: lower"),
        ("ValueError: Free memory on device (1/80 GiB) on startup is less than desired GPU memory", "Other processes"),
        ("ImportError: Arctic Inference is required for suffix decoding.", "pip install --no-deps arctic-inference"),
        ("NotImplementedError: Unsupported speculative method: 'mtp'", "cannot run mtp with this model"),
        ("ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.", "--dtype float32"),
        ("RuntimeError: Failed to infer device type", "sees no GPU"),
        ("python: No module named vllm", "That Python has no vllm: run `specbench backend install vllm`"),
        ("Unable to find image 'vllm/vllm-openai:none' locally", "no such container image"),
        (
            "specbench.decoder.server: an earlier start's\n"
            "RuntimeError: beside the point\n"
            "specbench.decoder.server: max_model_len must be 2..8192, the model's own limit; got 10000.",
            "max_model_len must be 2..8192, the model's own limit; got 10000.",
        ),
        ("specbench.decoder.server: [Errno 98] error while attempting to bind", "The port is taken"),
        (
            "  Value error, --foo requires --bar. [type=value_error, input_value=ArgsKwargs(…)]",
            "The engine says: --foo requires --bar.",
        ),
        (
            "ValueError: first cause\n…\nRuntimeError: Engine core initialization failed.",
            "The engine says: first cause",
        ),
    ],
)
def test_a_known_cause_is_told_in_one_sentence(log: str, sentence: str) -> None:
    told = explain(f"INFO loading\n{log}\nTraceback (most recent call last):\n  …")
    assert told is not None
    assert sentence in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("engine", "log", "sentence"),
    [
        ("vllm", "api_server.py: error: unrecognized arguments: --speculative-model x", "Write --drafter instead"),
        ("sglang", "sglang serve: error: unrecognized arguments: --speculative-model x", "does not know --speculative"),
        ("tensorrt-llm", "moe_confg\n  Extra inputs are not permitted [type=extra_forbidden]", "no setting moe_confg"),
        ("tensorrt-llm", "  Input tag 'Medusa' found using 'decoding_type' does not match", "decoding type Medusa"),
    ],
)
def test_a_cause_is_told_of_the_engine_whose_it_is(engine: str, log: str, sentence: str) -> None:
    assert sentence in (explain(log, engine) or "")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "reference"])
@pytest.mark.parametrize(
    "log", ["foo\n  Extra inputs are not permitted [type=extra_forbidden]", "Input tag 'image' found using 'type'"]
)
def test_words_that_any_engine_may_say_are_not_taken_for_tensorrt_llms(engine: str, log: str) -> None:
    assert "TensorRT-LLM" not in (explain(log, engine) or "")


def test_an_unknown_cause_is_not_made_up() -> None:
    assert explain("INFO all is well") is None
