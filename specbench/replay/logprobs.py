"""Asks a server for log-probabilities: untimed requests, by token ids in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

ALTERNATIVES = 20
"""Log-probabilities at a position: what engines give by default at most."""

_PREFIX = "token_id:"


@dataclass(frozen=True, slots=True)
class Continuation:
    """Tokens that a server went on with, and at each of them the log-probabilities of the most likely tokens, by id."""

    token_ids: tuple[int, ...]
    top: tuple[Mapping[int, float], ...]


class LogprobClient:
    """One server, one model. Raises aiohttp.ClientError for a server that fails, and LookupError, TypeError or
    ValueError for an answer without token ids or log-probabilities.
    """

    def __init__(self, session: aiohttp.ClientSession, model: str) -> None:
        self._session = session
        self._model = model

    async def go_on(
        self, prompt: Sequence[int], *, max_tokens: int = 1, logprobs: int = ALTERNATIVES, **sampling: float
    ) -> Continuation:
        """sampling: temperature (0, greedy, if left out), top_p, top_k, seed"""
        body: dict[str, Any] = {
            "model": self._model,
            "prompt": list(prompt),
            "max_tokens": max_tokens,
            "logprobs": logprobs,
            "return_token_ids": True,
            # Log-probabilities by token id: two tokens can have the same text.
            "return_tokens_as_token_ids": True,
            "temperature": 0,
            **sampling,
        }
        async with self._session.post("/v1/completions", json=body) as response:
            response.raise_for_status()
            choice = (await response.json())["choices"][0]
        top = choice["logprobs"]["top_logprobs"]
        return Continuation(tuple(choice["token_ids"]), tuple({_id(k): v for k, v in each.items()} for each in top))


class SglangLogprobClient(LogprobClient):
    """The same of an SGLang server, whose own endpoint gives log-probabilities by id; OpenAI's gives them by text."""

    async def go_on(
        self, prompt: Sequence[int], *, max_tokens: int = 1, logprobs: int = ALTERNATIVES, **sampling: float
    ) -> Continuation:
        given = {"sampling_seed" if name == "seed" else name: value for name, value in sampling.items()}
        body = {
            "input_ids": list(prompt),
            "sampling_params": {"max_new_tokens": max_tokens, "temperature": 0, **given},
            "return_logprob": True,
            "top_logprobs_num": logprobs,
        }
        async with self._session.post("/generate", json=body) as response:
            response.raise_for_status()
            answer = await response.json()
        top = answer["meta_info"]["output_top_logprobs"]  # (log-probability, id, text) of each
        return Continuation(
            tuple(answer["output_ids"]), tuple({token: value for value, token, *_ in each} for each in top)
        )


def _id(name: str) -> int:
    if not name.startswith(_PREFIX):
        raise ValueError(f"expected token ids in log-probabilities; got {name!r}")
    return int(name.removeprefix(_PREFIX))
