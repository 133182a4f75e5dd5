"""Plain decoding by transformers' `generate`, on the same shape with random weights of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from specbench.decoder.gpu_check.figures import Figure
from specbench.decoder.gpu_check.models import Pair
from specbench.decoder.gpu_check.speed import Scale
from specbench.decoder.gpu_check.timing import seconds


def generate(pair: Pair, dtype: torch.dtype, device: torch.device, scale: Scale) -> Iterator[Figure]:
    """Output tokens per second after the prompt, which is timed by itself and taken away."""
    import transformers

    transformers.logging.set_verbosity_error()
    config = transformers.LlamaConfig(**{k: v for k, v in pair.target_shape.items() if k != "model_type"})
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            model: Any = transformers.LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)
    for batch_size in scale.batch_sizes:
        ids = torch.randint(config.vocab_size, (batch_size, scale.context), device=device)

        def work(count: int, ids: torch.Tensor = ids) -> None:
            with torch.inference_mode():
                model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=False,
                    min_new_tokens=count,
                    max_new_tokens=count,
                    eos_token_id=None,
                    pad_token_id=0,
                )

        longer, shorter = (
            seconds(lambda count=count: work(count), device, repeats=3, warm_up=1)  # type: ignore[misc]
            for count in (scale.steps + 1, 1)
        )
        if longer > shorter:  # else the machine was busier than a few tokens take: no figure is better than a wrong one
            rate = batch_size * scale.steps / (longer - shorter)
            yield Figure("transformers generate", pair.target, rate, "tokens/s", batch_size, 0, scale.context)
