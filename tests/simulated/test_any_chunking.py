"""Whatever the chunking, our client reads the same request: through HTTP, with a server in this process."""

from __future__ import annotations

import asyncio
import random

from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.replay.client import StreamingClient
from specbench.replay.dialect import SGLANG, TENSORRT_LLM, VLLM
from specbench.replay.records import RequestTrace
from specbench.replay.request import RequestSpec
from specbench.simulated.scenario import Scenario
from specbench.simulated.server import ServerOptions, simulated

GAMMA = 5
DIALECTS = {"vllm": VLLM, "sglang": SGLANG, "tensorrt_llm": TENSORRT_LLM}
STREAMINGS = st.fixed_dictionaries(
    {
        "tokens_per_event": st.one_of(st.sampled_from(["step", "random"]), st.integers(1, 16)),
        "bytes": st.sampled_from(["event", "split", "merged", "anywhere"]),
        "keep_alive": st.sampled_from([0.0, 0.5]),
        "line_end": st.sampled_from(["lf", "crlf", "cr"]),
    }
)


async def traces(scenario: Scenario, seeds: list[int]) -> list[RequestTrace]:
    options = ServerOptions(method="eagle3", gamma=GAMMA)
    async with simulated(scenario, options) as runner:
        await web.TCPSite(runner, options.host, 0).start()
        host, port = runner.addresses[0][:2]
        url = f"http://{host}:{port}"
        async with StreamingClient(url, "simulated", dialect=DIALECTS[scenario.engine]) as client:
            specs = [RequestSpec(s, f"p{s}", 60, prompt=f"Prompt {s} with 🙂", seed=s) for s in seeds]
            return list(await asyncio.gather(*map(client.generate, specs)))


def said(trace: RequestTrace) -> tuple[object, ...]:
    """Everything in a trace but its times and its chunks."""
    return trace.token_ids, trace.text.encode(), trace.output_tokens, trace.finish_reason, trace.error, trace.acceptance


@settings(max_examples=25)
@given(
    engine=st.sampled_from(sorted(DIALECTS)),
    streaming=STREAMINGS,
    seed=st.integers(0, 9_999),
)
def test_any_chunking_gives_the_same_tokens_text_and_counts(
    engine: str, streaming: dict[str, object], seed: int
) -> None:
    scenario = {"engine": engine, "step": {"weights_ms": 0}, "prefill": {"fixed_ms": 0}, "output": {"sigma": 0.8}}
    seeds = random.Random(seed).sample(range(1_000), 3)
    plain, cut = (
        asyncio.run(traces(Scenario.model_validate({**scenario, "streaming": how}), seeds)) for how in ({}, streaming)
    )
    assert [said(trace) for trace in cut] == [said(trace) for trace in plain]
    assert all(trace.error is None and sum(trace.chunk_tokens) == trace.output_tokens > 0 for trace in cut)
