"""Request bodies of /v1/completions and /v1/chat/completions: what is read, what is refused, and why.

Fields that this module does not know are ignored, as engines do. Fields that it knows and that would change the output,
but which no service here can honour, are refused unless they hold their neutral value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, model_validator
from pydantic_core import ErrorDetails

from specbench.wire.service import GenerationRequest, RequestError

MAX_LOGPROBS = 20
"""Most likely tokens that can be asked for at each position (vLLM's default limit)."""

COMPLETION_MAX_TOKENS = 16
"""OpenAI's default for /v1/completions; a chat without a limit runs until it stops."""

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "chat_template": (),
    "echo": (False,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "min_p": (0,),
    "min_tokens": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "structured_outputs": ({},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
}
"""Values under which a field that is not supported changes nothing."""


def _token_id(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"token ids are whole numbers from 0; got {value!r}")
    return value


def _one_prompt(value: object) -> str | tuple[int, ...]:
    match value:
        case str() if value:
            return value
        case [int(), *_]:
            return tuple(_token_id(token) for token in value)
        case "" | []:
            raise ValueError("must not be empty")
        case [str() | list(), *_]:
            raise ValueError("must be one prompt; got a list of prompts. Send one request per prompt")
        case _:
            raise ValueError("must be a string or a list of token ids")


def _stop_strings(value: object) -> tuple[str, ...]:
    strings = value if isinstance(value, list) else [value]
    if not all(isinstance(string, str) and string for string in strings):
        raise ValueError("must be a non-empty string or a list of them")
    return tuple(strings)


def _plain_text(value: object) -> str:
    """Content parts are joined with line feeds, as vLLM does for templates that take a string."""
    match value:
        case str():
            return value
        case list() if all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in value):
            return "\n".join(part["text"] for part in value)
        case _:
            raise ValueError('must be a string or a list of {"type": "text", "text": …}; only text is served here')


TokenId = Annotated[int, Field(ge=0)]


class _Body(BaseModel):
    # strict: "4" is no number and true is no 1, so that a client's mistake is seen rather than served.
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class StreamOptions(_Body):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class Message(_Body):
    role: str
    content: Annotated[str, PlainValidator(_plain_text)]


class GenerationBody(_Body):
    """What both endpoints share. `model` None means the one model that is served."""

    model: str | None = None
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=-1, description="0 and -1 keep the whole vocabulary")
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stop: Annotated[tuple[str, ...], PlainValidator(_stop_strings)] = ()
    stop_token_ids: list[TokenId] = []
    ignore_eos: bool = False
    n: int = Field(1, ge=1, le=1)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool = False

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        present = {name: value for name, value in data.items() if value is not None}
        for name, neutral in NEUTRAL.items():
            if name in present and present[name] not in neutral:
                raise ValueError(f"{name} is not supported here; leave it out")
        return present

    @model_validator(mode="after")
    def _options_need_a_stream(self) -> GenerationBody:
        if "stream_options" in self.model_fields_set and not self.stream:
            raise ValueError("stream_options needs stream: true")
        return self

    def _generation(
        self,
        *,
        max_tokens: int | None,
        logprobs: int | None,
        prompt: str | tuple[int, ...] | None = None,
        messages: tuple[Mapping[str, Any], ...] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> GenerationRequest:
        return GenerationRequest(
            prompt=prompt,
            messages=messages,
            chat_template_kwargs=chat_template_kwargs or {},
            max_tokens=max_tokens,
            temperature=self.temperature,
            top_k=max(self.top_k, 0),
            top_p=self.top_p,
            seed=self.seed,
            stop=self.stop,
            stop_token_ids=tuple(self.stop_token_ids),
            ignore_eos=self.ignore_eos,
            logprobs=logprobs,
        )


class CompletionRequest(GenerationBody):
    """POST /v1/completions."""

    prompt: Annotated[str | tuple[int, ...], PlainValidator(_one_prompt)]
    max_tokens: int = Field(COMPLETION_MAX_TOKENS, ge=1)
    logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)

    def generation(self) -> GenerationRequest:
        return self._generation(prompt=self.prompt, max_tokens=self.max_tokens, logprobs=self.logprobs)


class ChatRequest(GenerationBody):
    """POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1, description="OpenAI's newer name; wins over max_tokens")
    logprobs: bool = False
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    chat_template_kwargs: dict[str, Any] = {}

    @model_validator(mode="after")
    def _top_logprobs_need_logprobs(self) -> ChatRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        return self

    def generation(self) -> GenerationRequest:
        return self._generation(
            messages=tuple(message.model_dump() for message in self.messages),
            chat_template_kwargs=self.chat_template_kwargs,
            max_tokens=self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens,
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
        )


Body = TypeVar("Body", bound=BaseModel)


def parse(body_type: type[Body], body: bytes) -> Body:
    """Read a JSON body. Raises RequestError (400) that names each field at fault and the reason."""
    try:
        return body_type.model_validate_json(body)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        first = problems[0]["loc"]
        raise RequestError("; ".join(map(_sentence, problems)), param=str(first[0]) if first else None) from error


def _sentence(problem: ErrorDetails) -> str:
    if problem["type"] == "json_invalid":
        return f"the body is not JSON: {problem['ctx']['error']}"
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(".")
    if problem["type"] == "model_type":
        return f"{field or 'the body'} must be a JSON object"
    if problem["type"] == "missing":
        return f"{field} is missing"
    if problem["type"] == "value_error":
        return f"{field} {problem['ctx']['error']}".lstrip()
    reason = problem["msg"].replace("Input should be", "must be")
    value = problem["input"]
    return f"{field} {reason}" + (f", got {value!r}" if isinstance(value, str | int | float) else "")
