"""Fixtures for the whole suite."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, settings

from specbench.backends.base import EngineOptions, Launch
from specbench.backends.process import run_server
from specbench.backends.simulated import SimulatedBackend
from specbench.replay.client import StreamingClient
from specbench.replay.dialect import SGLANG, TENSORRT_LLM, VLLM, Dialect
from specbench.simulated.scenario import Scenario, load_scenario
from specbench.simulated.truth import Truth, read_truth
from specbench.speculation import DRAFTERLESS, Speculation

# Before torch is imported, here and in the servers that tests start: its threads wait for each other by spinning, which
# on a busy machine costs more than they bring.
os.environ.setdefault("OMP_NUM_THREADS", "1")

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

if find_spec("triton"):
    # Tests of kernels have them interpreted. Triton asks for that when it is imported, which transformers may be the
    # first to do. It must not stay: servers that tests start would inherit it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        import triton  # noqa: F401

# A deadline is a timed assertion, and so is how fast examples are made; this suite may run on a busy machine.
settings.register_profile("specbench", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("specbench")


@pytest.fixture(scope="session")
def demo_target() -> Path:
    """The real demo target, in the user's own cache: the first run of the suite fetches it, later ones are offline."""
    from specbench import demo

    return demo.demo_target()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory that this test has for itself."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("SPECBENCH_CACHE", str(cache))
    return cache


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random target with a chat template, deep enough for the three taps of an EAGLE-3 head."""
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=258,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.12,
        bos_token_id=None,
        eos_token_id=257,
    )
    directory = tmp_path_factory.mktemp("target")
    LlamaForCausalLM(config).save_pretrained(directory)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<|im_start|>", "<|im_end|>")])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(directory)
    return directory


@dataclass(frozen=True, slots=True)
class KnownServer:
    """A known-truth server that runs, as a process of its own."""

    url: str
    scenario: Scenario
    gamma: int
    truth_path: Path

    @property
    def dialect(self) -> Dialect:
        return {"vllm": VLLM, "sglang": SGLANG, "tensorrt_llm": TENSORRT_LLM}[self.scenario.engine]

    def client(self, **options: Any) -> StreamingClient:
        return StreamingClient(self.url, "simulated", dialect=self.dialect, **options)

    def truth(self) -> Truth:
        """The log, once every request that arrived has also ended."""
        deadline = time.monotonic() + 20
        while True:
            truth = read_truth(self.truth_path)
            if all(request.finished is not None for request in truth.requests) or time.monotonic() > deadline:
                return truth
            time.sleep(0.02)


@pytest.fixture
async def simulate(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[KnownServer]]]:
    """Start a known-truth server: `await simulate({…a scenario…}, gamma=4)`."""
    async with AsyncExitStack() as stack:
        numbers = itertools.count()

        async def start(
            scenario: dict[str, Any], *, method: str = "eagle3", gamma: int = 4, max_batch_size: int = 8
        ) -> KnownServer:
            folder = tmp_path / f"known-{next(numbers)}" / "logs"
            folder.mkdir(parents=True)
            file, truth = folder / "scenario.yaml", folder / "truth.jsonl"
            file.write_text(yaml.safe_dump(scenario))
            launch = Launch(
                target=Path("simulated"),
                target_name="simulated",
                speculation=Speculation(method, gamma, None if method in DRAFTERLESS else "drafter"),
                max_batch_size=max_batch_size,
                options=EngineOptions(scenario=file, engine_args=("--truth", str(truth))),
            )
            command = SimulatedBackend().command(launch)
            server = await stack.enter_async_context(run_server(command, folder / "server.log", ready_timeout=60))
            return KnownServer(server.base_url, load_scenario(file), gamma, truth)

        yield start
